//! The effective configuration as TOML, with the origin of every value that is not the default.

use super::{Config, Origin};

const HEAD: &str = "\
# The configuration in force. A comment behind a value says where it was set; values without one
# are defaults. `tidewire config --default` explains them.
";

/// A table's name as TOML has it. Those of the database's tables may have any sign in them.
fn header(table: &str) -> String {
    let is_bare = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    match table.strip_prefix("tables.") {
        Some(name) if !name.split('.').all(is_bare) => {
            format!("tables.{}", toml::Value::String(name.to_owned()))
        }
        _ => table.to_owned(),
    }
}

/// What `tidewire config` prints: a file that could be used again, but for the secrets.
pub(crate) fn effective(config: &Config) -> String {
    let mut text = String::from(HEAD);
    let admin_key = if config.admin_key.is_some() { "set (hidden)" } else { "not set" };
    let jwt_secret = if config.jwt_secret.is_some() { "set (hidden)" } else { "not set" };
    text += &format!(
        "# TIDEWIRE_ADMIN_KEY is {admin_key}.\n# TIDEWIRE_JWT_SECRET is {jwt_secret}.\n\n"
    );
    let mut table = "";
    for setting in &config.effective {
        if setting.table() != table {
            table = setting.table();
            text += &format!("\n[{}]\n", header(table));
        }
        text += &format!("{} = {}", setting.name(), setting.shown());
        if setting.origin != Origin::Default {
            text += &format!(" # {}", setting.origin);
        }
        text.push('\n');
    }
    text
}
