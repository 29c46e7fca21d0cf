//! Where replication connections go: to the database of the store's URL, by another driver.

use tokio_postgres::config::{Host, SslMode};

use tidewire_store_postgres::captured::{CaptureLink, TlsCheck};

/// PostgreSQL's own port.
const PORT: u16 = 5432;

/// Where the replication connection goes, and how much of the server's certificate it checks.
#[derive(Clone)]
pub(crate) struct Target {
    /// The server.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
    /// The role.
    pub(crate) user: String,
    /// Its password.
    pub(crate) password: String,
    /// The database.
    pub(crate) database: String,
    /// How much is checked.
    pub(crate) check: CheckOf,
    /// The issuers that are known, if not the usual ones.
    pub(crate) root_file: Option<String>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Target { host, port, user, database, .. } = self;
        write!(f, "Target({user} at {host}:{port}, database {database})")
    }
}

/// How a replication connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckOf {
    /// Not at all.
    NoTls,
    /// Encrypted if the server offers it.
    IfOffered,
    /// Encrypted, whoever answers.
    Nothing,
    /// The certificate's issuer is known.
    Issuer,
    /// And it is for this host.
    IssuerAndHost,
}

/// The servers of the URL, in its order. Only one of them takes writes and has the slot.
pub(crate) fn targets(link: &CaptureLink) -> Vec<Target> {
    let (config, protection) = (link.config(), link.protection());
    let check = match (config.get_ssl_mode(), protection.check) {
        (SslMode::Disable, _) => CheckOf::NoTls,
        (_, TlsCheck::Issuer) => CheckOf::Issuer,
        (_, TlsCheck::IssuerAndHost) => CheckOf::IssuerAndHost,
        (SslMode::Require, TlsCheck::Nothing) => CheckOf::Nothing,
        (_, TlsCheck::Nothing) => CheckOf::IfOffered,
    };
    let ports = config.get_ports();
    let user = config.get_user().unwrap_or("postgres").to_owned();
    let password = config.get_password().unwrap_or_default();
    let target = |(at, host): (usize, &Host)| Target {
        host: match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        },
        port: ports.get(at).or(ports.first()).copied().unwrap_or(PORT),
        user: user.clone(),
        password: String::from_utf8_lossy(password).into_owned(),
        database: config.get_dbname().unwrap_or(&user).to_owned(),
        check: match host {
            Host::Tcp(_) => check,
            Host::Unix(_) => CheckOf::NoTls,
        },
        root_file: protection.root_file.clone().filter(|file| file != "system"),
    };
    config.get_hosts().iter().enumerate().map(target).collect()
}
