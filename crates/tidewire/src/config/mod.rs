//! The configuration: defaults, then a file, then environment variables, then flags.
//!
//! - [`file`]: TOML as settings; `default.toml` (of the crate `options`) is the reference
//! - [`environment`]: variables as settings
//! - [`expect`]: what each key expects; [`problem`]: what to say when it got something else
//! - [`settings`]: the result as typed values, and as the options of the other crates
//! - [`show`]: the result for people; [`secret`]: what they must not see
//!
//! The rest of the program reads neither files nor variables.
//!
//! - `setting`: one value of the configuration, and where it comes from

mod environment;
mod expect;
pub(crate) mod file;
mod problem;
pub(crate) mod secret;
mod setting;
mod settings;
pub(crate) mod show;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use toml::{Table, Value};

pub(crate) use expect::{LEVELS, listen_address};
pub(crate) use problem::Problems;
use problem::{Problem, closest};
pub(crate) use setting::{Origin, Setting};
pub(crate) use settings::{Settings, StoreOptions};

/// The file that is read where none is named, if it exists.
const FILE_NAME: &str = "tidewire.toml";

/// What the person who started us gave, before it is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawSettings {
    /// `--config`.
    pub(crate) file: Option<PathBuf>,
    /// `--listen` and its like, by the key they set.
    pub(crate) flags: Vec<(&'static str, &'static str, String)>,
}

/// What is in force.
pub(crate) struct Config {
    pub(crate) settings: Settings,
    /// Every key with its value and origin, in the order of the default file.
    pub(crate) effective: Vec<Setting>,
    /// `TIDEWIRE_ADMIN_KEY`, unchecked: only `serve` needs it.
    pub(crate) admin_key: Option<String>,
    /// `TIDEWIRE_JWT_SECRET`.
    pub(crate) jwt_secret: Option<String>,
    /// `TIDEWIRE_LOG`.
    pub(crate) log_filter: Option<String>,
}

/// Reads all layers. `folder` is where `tidewire.toml` is looked for.
pub(crate) fn load(
    given: RawSettings,
    variables: impl Iterator<Item = (OsString, OsString)>,
    folder: &Path,
) -> Result<Config, Problems> {
    let variables = environment::ours(variables)?;
    let mut effective = file::defaults();
    let (of_variables, mut problems) = environment::settings(&variables, &effective);

    let mut layers = match named_file(&given, &variables, folder) {
        Some(path) => read(&path, folder)?,
        None => Vec::new(),
    };
    layers.extend(of_variables);
    layers.extend(given.flags.into_iter().map(|(flag, key, value)| Setting {
        key: key.to_owned(),
        value: Value::String(value),
        origin: Origin::Flag(flag),
    }));
    for setting in layers {
        problems.extend(apply(&mut effective, setting).err());
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    Ok(Config {
        settings: typed(&effective),
        effective,
        admin_key: environment::get(&variables, "TIDEWIRE_ADMIN_KEY").map(str::to_owned),
        jwt_secret: environment::get(&variables, "TIDEWIRE_JWT_SECRET").map(str::to_owned),
        log_filter: environment::get(&variables, "TIDEWIRE_LOG").map(str::to_owned),
    })
}

fn named_file(
    given: &RawSettings,
    variables: &[(String, String)],
    folder: &Path,
) -> Option<PathBuf> {
    let named = given.file.clone();
    let named = named.or_else(|| environment::get(variables, "TIDEWIRE_CONFIG").map(PathBuf::from));
    named.or_else(|| Some(folder.join(FILE_NAME)).filter(|path| path.exists()))
}

fn read(path: &Path, folder: &Path) -> Result<Vec<Setting>, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|reason| Problem::Unreadable { path: path.to_owned(), reason })?;
    // A file in the folder is known by its name alone.
    file::settings(&text, path.strip_prefix(folder).unwrap_or(path))
}

/// Puts one setting over what is in force, if it is a known one with a fitting value.
fn apply(effective: &mut Vec<Setting>, setting: Setting) -> Result<(), Problem> {
    let Some(place) = effective.iter_mut().find(|place| place.key == setting.key) else {
        return match (rule_of(&setting.key), &setting.value) {
            (Some(_), Value::String(text)) if !text.trim().is_empty() => {
                effective.push(setting);
                Ok(())
            }
            (Some(_), _) => Err(wrong(setting, RULE.to_owned())),
            (None, _) => unknown(effective, setting),
        };
    };
    if rule_of(&setting.key).is_some() {
        // A file that has [tables.sales.orders] may have [tables."sales.orders"] too: neither is to be
        // passed over.
        let expected = format!("one rule for each table, and there is one in {}", place.origin);
        return Err(wrong(setting, expected));
    }
    match expect::check(place, &setting.value) {
        Ok(()) => {
            *place = setting;
            Ok(())
        }
        Err(expected) => Err(wrong(setting, expected)),
    }
}

/// What a row rule looks like.
const RULE: &str = "a condition on a row such as \"owner_id = auth.user_id()\"";

/// The table that a key gives a row rule for. There are as many of those keys as there are tables.
fn rule_of(key: &str) -> Option<&str> {
    let table = key.strip_prefix("tables.")?.strip_suffix(".read")?;
    (!table.is_empty()).then_some(table)
}

fn unknown(effective: &[Setting], setting: Setting) -> Result<(), Problem> {
    let table = format!("{}.", setting.key);
    if effective.iter().any(|known| known.key.starts_with(&table)) {
        return match setting.value {
            Value::Table(_) => Ok(()),
            _ => Err(wrong(setting, "a table".to_owned())),
        };
    }
    let Setting { key, value, origin } = setting;
    let secret = [("admin_key", "TIDEWIRE_ADMIN_KEY"), ("jwt.secret", "TIDEWIRE_JWT_SECRET")];
    if let Some((_, variable)) = secret.into_iter().find(|(end, _)| key.ends_with(end)) {
        return Err(Problem::SecretInFile { key, origin, variable });
    }
    let suggestion = match value {
        Value::Table(_) => closest(&key, effective.iter().map(Setting::table)),
        _ => closest(&key, effective.iter().map(|known| known.key.as_str())),
    };
    Err(Problem::UnknownKey { suggestion: suggestion.map(str::to_owned), key, origin })
}

fn wrong(setting: Setting, expected: String) -> Problem {
    let value = setting.shown();
    Problem::Wrong { key: setting.key, value, origin: setting.origin, expected }
}

fn typed(effective: &[Setting]) -> Settings {
    let (mut root, mut rules) = (Table::new(), Table::new());
    for setting in effective {
        let value = setting.value.clone();
        if let Some(table) = rule_of(&setting.key) {
            let place = Value::String(setting.origin.to_string());
            let rule = [("read".to_owned(), value), ("place".to_owned(), place)];
            rules.insert(table.to_owned(), Value::Table(rule.into_iter().collect()));
            continue;
        }
        match setting.table() {
            "" => root.insert(setting.name().to_owned(), value),
            table => {
                let table = root.entry(table).or_insert_with(|| Value::Table(Table::new()));
                let table = table.as_table_mut().expect("no key is the name of a table");
                table.insert(setting.name().to_owned(), value)
            }
        };
    }
    root.insert("tables".to_owned(), Value::Table(rules));
    Settings::deserialize(root).expect("every value was checked against its key")
}

#[cfg(test)]
mod tests;
