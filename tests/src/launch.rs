//! Starting `tidewire`, waiting until it is ready, and ending it one way or the other.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use crate::certificate::{Authority, Files};
use crate::http::Http;
use crate::port::free_port;
use crate::process::{Ended, Process, Resources};
use crate::store::Store;
use crate::wait::eventually;

/// How a server is started. Keeps its port, so that one started again is where the last one was.
#[derive(Debug, Clone)]
pub struct Launch {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    /// A command that runs the binary, such as one that enters a namespace.
    wrapper: Vec<String>,
    port: u16,
    token: Option<String>,
    /// Who has issued its certificate, if it has one.
    authority: Option<Authority>,
    /// Where it runs: an empty folder, so that no `tidewire.toml` is found.
    folder: Arc<TempDir>,
}

/// Where changes of tables come from, unless a story says otherwise. A slot outlives its server, and a
/// cluster has few: stories that do not need one must not leave one behind.
const CAPTURE: &str = "outbox";

impl Launch {
    /// `tidewire dev` on a free port of the loopback interface, with this store.
    pub fn dev(store: &Store) -> Launch {
        let port = free_port();
        Launch::new("dev", port)
            .with(["--listen", &format!("127.0.0.1:{port}")])
            .with(store.arguments())
            .set("TIDEWIRE_CAPTURE", CAPTURE)
    }

    /// `tidewire serve` on a free port, with this store and this key.
    pub fn serve(store: &Store, key: &str) -> Launch {
        let port = free_port();
        let launch = Launch::new("serve", port)
            .with(["--listen", &format!("127.0.0.1:{port}")])
            .with(store.arguments())
            .set("TIDEWIRE_CAPTURE", CAPTURE)
            .set("TIDEWIRE_ADMIN_KEY", key);
        Launch { token: Some(key.to_owned()), ..launch }
    }

    /// A bare command, to which nothing is added.
    pub fn command(name: &str) -> Launch {
        Launch::new(name, 0)
    }

    fn new(command: &str, port: u16) -> Launch {
        Launch {
            arguments: vec![command.to_owned()],
            variables: Vec::new(),
            wrapper: Vec::new(),
            port,
            token: None,
            authority: None,
            folder: Arc::new(tempfile::tempdir().expect("a temporary folder")),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn with(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Launch {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Launch {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it a `tidewire.toml`.
    #[must_use]
    pub fn configured(self, text: &str) -> Launch {
        std::fs::write(self.folder.path().join("tidewire.toml"), text).expect("a file");
        self
    }

    /// Lets the server speak TLS, with what is in these files, to clients who trust this authority.
    #[must_use]
    pub fn secured(self, files: &Files, authority: &Authority) -> Launch {
        let secured = self
            .set("TIDEWIRE_TLS_CERTIFICATE", &files.certificate().to_string_lossy())
            .set("TIDEWIRE_TLS_KEY", &files.key().to_string_lossy());
        Launch { authority: Some(authority.clone()), ..secured }
    }

    /// Runs the binary by means of another command.
    #[must_use]
    pub fn wrapped_in(mut self, wrapper: Vec<String>) -> Launch {
        self.wrapper = wrapper;
        self
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts the process and does not wait for anything.
    pub fn spawn(&self) -> Process {
        let binary = binary().to_string_lossy().into_owned();
        let mut words = self.wrapper.iter().chain([&binary]).chain(&self.arguments);
        let mut command = Command::new(words.next().expect("at least the binary"));
        command.args(words).current_dir(self.folder.path());
        // The variables of whoever runs the tests would be settings.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TIDEWIRE_") {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Process::spawn(command)
    }

    /// Starts a server and waits until it is ready.
    pub async fn start(&self) -> Server {
        self.ready(self.spawn()).await
    }

    /// Waits until a spawned server is ready.
    pub async fn ready(&self, mut process: Process) -> Server {
        let http = Http::new(self.port, self.token.as_deref(), self.authority.clone());
        eventually("/readyz answers 200", async || {
            if let Some(status) = process.status() {
                panic!("the server ended before it was ready ({status})");
            }
            let answer = http.try_get("/readyz").await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await;
        Server { process, http }
    }

    /// Runs the binary to its end.
    pub async fn run(&self) -> Ended {
        self.spawn().ended().await
    }
}

/// A server that is, or was, ready. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    process: Process,
    http: Http,
}

impl Server {
    /// A client of it. It goes on to work with the next server on the same port.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// The process itself.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What it has of the system.
    pub fn resources(&self) -> Resources {
        self.process.resources()
    }

    /// Waits until the server says that so many live readers wait.
    pub async fn readers_wait(&self, count: usize) {
        let line = format!("tidewire_live_readers {count}");
        eventually(&format!("{count} readers wait"), async || {
            let metrics = self.http.get("/metrics").await.text();
            metrics.lines().any(|found| found == line).then_some(())
        })
        .await;
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        if let Some(status) = self.process.status() {
            panic!("the server ended before it was killed ({status})");
        }
        self.process.kill();
    }

    /// SIGTERM, and waits for the end. It must be a success.
    pub async fn stop(self) -> Ended {
        self.process.signal("TERM");
        let ended = self.ended().await;
        assert_eq!(ended.code, Some(0), "after SIGTERM: {}", ended.said);
        ended
    }

    /// Waits for the end.
    pub async fn ended(self) -> Ended {
        self.process.ended().await
    }
}

/// The binary under test: what `TIDEWIRE_BIN` names, else the one built beside this test.
pub(crate) fn binary() -> PathBuf {
    let found = std::env::var_os("TIDEWIRE_BIN").map_or_else(beside_this_test, PathBuf::from);
    found.canonicalize().unwrap_or_else(|error| {
        panic!("there is no {} ({error}): run cargo build -p tidewire", found.display())
    })
}

/// Test executables are in `target/debug/deps`, binaries in `target/debug`.
fn beside_this_test() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().and_then(|deps| deps.parent());
    folder.expect("a target folder").join("tidewire")
}
