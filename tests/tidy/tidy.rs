//! The house rules that a machine can check. Each test is one rule and names what breaks it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use tidewire_tidy::{File, files, root};

/// Lines after which a file must say in its first lines why it is not split.
const LINES_MAX: usize = 600;

fn assert_none(rule: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

fn rust_files() -> Vec<File> {
    files().into_iter().filter(|file| file.is("rs")).collect()
}

#[test]
fn every_rust_file_opens_with_module_docs() {
    let bare: Vec<String> = rust_files()
        .into_iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.path)
        .collect();
    assert_none("these files do not open with //! and what they are for", &bare);
}

/// The map of the code stands where the code is: in the head of the file that declares its parts.
#[test]
fn every_part_is_named_where_it_is_declared() {
    let declares = |file: &File| file.path.ends_with("/lib.rs") || file.path.ends_with("/mod.rs");
    let for_tests = |file: &File| file.path.split('/').any(|folder| folder.starts_with("test"));
    let (mut declared, mut unnamed) = (0, Vec::new());
    for file in rust_files().iter().filter(|file| declares(file) && !for_tests(file)) {
        let head: String = file.text.lines().take_while(|line| line.starts_with("//!")).collect();
        let quoted: Vec<&str> = head.split('`').skip(1).step_by(2).collect();
        for part in parts(&file.text) {
            declared += 1;
            if !quoted.iter().any(|words| words.split("::").any(|word| word == part)) {
                unnamed.push(format!("{}: {part}", file.path));
            }
        }
    }
    assert!(declared > 300, "the rule has lost sight of what it is about");
    assert_none("say in the head of these files what these parts are for", &unnamed);
}

/// The modules in files of their own that a file declares, but for those that only tests have.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut only_tests = false;
    for line in text.lines().map(str::trim) {
        let declared = line.split_once("mod ").filter(|(before, _)| {
            before.is_empty() || before.trim_end() == "pub" || before.starts_with("pub(")
        });
        let name = declared.and_then(|(_, name)| name.strip_suffix(';'));
        if let Some(name) = name.filter(|_| !only_tests) {
            parts.push(name.trim_start_matches("r#"));
        }
        if !line.starts_with("//") && !line.is_empty() {
            only_tests = line.starts_with("#[cfg(test)]") || (only_tests && line.starts_with("#["));
        }
    }
    parts
}

#[test]
fn every_script_and_query_opens_with_a_comment() {
    let opens = |file: &File| match file.path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("sql") if file.path.contains("/migrations/") => file.text.starts_with("-- "),
        Some("sh") => file.text.lines().nth(1).is_some_and(|line| line.starts_with("# ")),
        Some("ts" | "mjs") => file.text.starts_with("//") || file.text.starts_with("/*"),
        _ => true,
    };
    let bare: Vec<String> =
        files().into_iter().filter(|file| !opens(file)).map(|file| file.path).collect();
    assert_none("these files do not open with a comment on what they are for", &bare);
}

#[test]
fn no_file_is_long_without_a_reason() {
    let source = ["rs", "ts", "mjs", "sql", "sh", "html"];
    let long: Vec<String> = files()
        .into_iter()
        .filter(|file| source.iter().any(|extension| file.is(extension)))
        .filter(|file| file.text.lines().count() > LINES_MAX)
        .filter(|file| !file.text.lines().take(10).any(|line| line.contains("Long because")))
        .map(|file| format!("{} has {} lines", file.path, file.text.lines().count()))
        .collect();
    assert_none("split these, or say in their first lines \"Long because …\"", &long);
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    let roots = ["work", "tmp", "root", "home", "farm"].map(|name| format!("/{name}/"));
    let names_a_place = |line: &str| {
        roots.iter().any(|root| {
            line.match_indices(root.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + root.len()..].chars().next();
                let inside = |c: char| c.is_ascii_alphanumeric() || "._}~)".contains(c);
                !before.is_some_and(inside) && after.is_some_and(|c| c.is_ascii_lowercase())
            })
        })
    };
    let mut found = Vec::new();
    for file in files().iter().filter(|file| !file.path.ends_with(".lock")) {
        for (number, line) in file.text.lines().enumerate().filter(|(_, line)| names_a_place(line))
        {
            found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
        }
    }
    assert_none("these lines hold a path of one machine", &found);
}

#[test]
fn migrations_have_the_same_numbers_and_names_on_both_stores() {
    let mut by_store: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files() {
        let in_store = file.path.strip_prefix("crates/store-");
        if let Some((store, name)) = in_store.and_then(|rest| rest.split_once("/migrations/")) {
            by_store.entry(store.to_owned()).or_default().insert(name.to_owned());
        }
    }
    let sqlite = by_store.get("sqlite").expect("SQLite has migrations");
    assert_eq!(Some(sqlite), by_store.get("postgres"), "the stores' migrations differ");
    for (index, name) in sqlite.iter().enumerate() {
        let number = format!("{:04}_", index + 1);
        assert!(name.starts_with(&number), "{name} should begin with {number}: no gaps");
    }
    let list = std::fs::read_to_string(root().join("crates/store/src/migration.rs"))
        .expect("the list of migrations");
    for name in sqlite {
        let listed = list.matches(&format!("\"{}\"", name.trim_end_matches(".sql"))).count();
        assert_eq!(listed, 1, "{name} must be listed in migration.rs");
    }
}

#[test]
fn the_stores_have_the_same_queries_and_files() {
    let names = |prefix: &str, extension: &str| -> BTreeSet<String> {
        files()
            .iter()
            .filter(|file| file.is(extension))
            .filter_map(|file| file.path.strip_prefix(prefix).map(ToOwned::to_owned))
            .collect()
    };
    let sqlite = names("crates/store-sqlite/src/", "rs");
    let postgres = names("crates/store-postgres/src/", "rs");
    assert!(sqlite.len() > 30, "the rule has lost sight of what it is about");
    // One process owns the file, so only its writer can know what is there without looking, what is
    // changed there is captured there, and who works on what is known there; and PostgreSQL has tools for
    // backups of its own, and copies its own write-ahead log.
    let own = |name: &str| {
        ["backup.rs", "cache.rs", "memory.rs", "recent.rs", "groups/runtime.rs"].contains(&name)
            || ["checkpoint.rs", "tests/checkpoints.rs", "tests/names.rs"].contains(&name)
            || name.starts_with("capture/")
    };
    let missing: Vec<String> =
        sqlite.difference(&postgres).filter(|name| !own(name)).cloned().collect();
    assert_none("SQLite's folder has files that PostgreSQL's has not", &missing);
}

#[test]
fn names_say_what_a_file_is_for() {
    let vague = ["utils", "util", "common", "types", "manager", "helper", "helpers", "misc"];
    let found: Vec<String> = files()
        .into_iter()
        .filter(|file| {
            let stems = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
            stems.into_iter().any(|stem| vague.contains(&stem))
        })
        .map(|file| file.path)
        .collect();
    assert_none("these names could hold anything", &found);
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("tidewire-options", &[] as &[&str]),
        ("tidewire-suggest", &[]),
        ("tidewire-store", &["tidewire-options"]),
        ("tidewire-store-sqlite", &["tidewire-options", "tidewire-store", "tidewire-suggest"]),
        ("tidewire-store-postgres", &["tidewire-options", "tidewire-store"]),
        ("tidewire-store-contract", &["tidewire-store"]),
        ("tidewire-query", &["tidewire-suggest"]),
        ("tidewire-client", &[]),
        ("tidewire-capture", &["tidewire-options", "tidewire-store", "tidewire-store-postgres"]),
        (
            "tidewire-consumer",
            &[
                "tidewire-store",
                "tidewire-store-postgres",
                "tidewire-store-sqlite",
                "tidewire-suggest",
            ],
        ),
        ("tidewire-wire", &[]),
        (
            "tidewire-access",
            &["tidewire-options", "tidewire-wire", "tidewire-store", "tidewire-query"],
        ),
        ("tidewire-hub", &["tidewire-wire", "tidewire-access", "tidewire-store", "tidewire-query"]),
        (
            "tidewire-deliver",
            &[
                "tidewire-wire",
                "tidewire-access",
                "tidewire-hub",
                "tidewire-store",
                "tidewire-query",
            ],
        ),
    ]);
    let drivers = ["rusqlite", "tokio-postgres", "deadpool-postgres"];
    let may_have_drivers = [
        "tidewire-store-sqlite",
        "tidewire-store-postgres",
        "tidewire-capture",
        "tidewire-bench",
        "tidewire-stories",
    ];
    let packages = dependencies();
    let unknown = allowed.keys().find(|name| !packages.contains_key(**name));
    assert_eq!(unknown, None, "the rule has lost sight of what it is about");
    for (package, dependencies) in packages {
        if let Some(allowed) = allowed.get(package.as_str()) {
            for dependency in dependencies.iter().filter(|name| name.starts_with("tidewire")) {
                assert!(
                    allowed.contains(&dependency.as_str()),
                    "{package} depends on {dependency}"
                );
            }
        }
        if !may_have_drivers.contains(&package.as_str()) {
            let driver = dependencies.iter().find(|name| drivers.contains(&name.as_str()));
            assert_eq!(driver, None, "{package} has a database driver; SQL is for stores");
        }
        if package == "tidewire-query" {
            let runtime = dependencies.iter().find(|name| name.starts_with("tokio"));
            assert_eq!(runtime, None, "the query engine is pure");
        }
    }
}

/// The normal dependencies of each package of the workspace.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo tells its metadata");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let of_package = |package: &serde_json::Value| {
        let names = package["dependencies"].as_array().expect("dependencies").iter();
        let normal = names.filter(|dependency| dependency["kind"].is_null());
        let name = |value: &serde_json::Value| value["name"].as_str().expect("a name").to_owned();
        (name(package), normal.map(name).collect())
    };
    packages.iter().map(of_package).collect()
}

#[test]
fn the_environment_is_read_only_in_the_binary() {
    let reads = |line: &str| line.contains("env::var(") || line.contains("env::vars(");
    let mut found = Vec::new();
    for file in rust_files() {
        let library = file.path.starts_with("crates/")
            && file.path.contains("/src/")
            && !file.path.starts_with("crates/tidewire/");
        let for_tests = file.path.contains("test") || file.path.contains("/store-contract/");
        if library && !for_tests && file.text.lines().any(reads) {
            found.push(file.path);
        }
    }
    assert_none("configuration belongs into the binary", &found);
}

#[test]
fn unsafe_code_is_where_sqlite_is_called_by_hand() {
    let places =
        ["crates/store-sqlite/src/capture/preupdate.rs", "crates/store-sqlite/src/memory.rs"];
    let lint = ["(unsafe", "_code"].concat();
    let found: Vec<String> = rust_files()
        .into_iter()
        .filter(|file| file.text.contains(&lint) && !places.contains(&file.path.as_str()))
        .map(|file| file.path)
        .collect();
    assert_none("only SQLite's preupdate hook and its allocator are called by hand", &found);
}

#[test]
fn tasks_are_owned() {
    let mut found = Vec::new();
    let product = |file: &&File| file.path.starts_with("crates/") && !file.path.contains("test");
    for file in rust_files().iter().filter(product) {
        let detached = |line: &str| line.trim_start().starts_with("tokio::spawn(");
        for (number, line) in file.text.lines().enumerate().filter(|(_, line)| detached(line)) {
            found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
        }
    }
    assert_none("these tasks have no owner that stops them", &found);
}

/// Who reads a page knows that it is the last by the statement's word only: bytes on disk are not those of
/// the text. Pages of groups say it in a column without a name.
#[test]
fn a_statement_that_cuts_by_bytes_says_whether_more_follows() {
    let of_stores = |file: &File| file.is("sql") && file.path.contains("/sql/");
    let cuts =
        |file: &File| ["bytes_before", "bytes_through"].iter().any(|w| file.text.contains(w));
    let says = |file: &File| {
        file.text.contains("AS follows") || file.path.ends_with("postgres/sql/group_log.sql")
    };
    let found: Vec<File> = files().into_iter().filter(|f| of_stores(f) && cuts(f)).collect();
    assert!(found.len() >= 4, "the rule has lost sight of what it is about");
    let silent: Vec<String> = found.into_iter().filter(|f| !says(f)).map(|f| f.path).collect();
    assert_none("these cut a page and do not say so", &silent);
}

/// Section 16 of PROTOCOL.md repeats defaults for those who write clients: they are the file's.
#[test]
fn the_limits_in_the_protocol_are_those_of_the_default_file() {
    let protocol = std::fs::read_to_string(root().join("PROTOCOL.md")).expect("PROTOCOL.md");
    let (_, section) = protocol.split_once("\n## 16. ").expect("section 16");
    let (section, _) = section.split_once("\n## 17. ").expect("section 17");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let (mut compared, mut wrong) = (0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let keys = cells[0].split('`').skip(1).step_by(2).filter(|key| key.contains('.'));
        for (key, shown) in keys.zip(cells[1].split(", ")) {
            compared += 1;
            let default: i64 = tidewire_options::default_of(key);
            if shown_number(shown, key) != Some(default) {
                wrong.push(format!("{key}: {shown}, and the default is {default}"));
            }
        }
    }
    assert!(compared > 60, "the rule has lost sight of what it is about: {compared}");
    assert_none("these are not the defaults of default.toml", &wrong);
}

/// The number that a page shows for a key: `16 MiB`, `20 s`, `10,000`, `4: half of them …`.
fn shown_number(shown: &str, key: &str) -> Option<i64> {
    let mut words = shown.split([' ', ':']);
    let number: i64 = words.next()?.replace(',', "").parse().ok()?;
    let is_time = key.ends_with("_ms") || key.ends_with("_ms_max");
    let unit = match words.next() {
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        Some("s") if is_time => 1_000,
        Some("min") if is_time => 60_000,
        Some("h") if is_time => 3_600_000,
        Some("ms") if is_time => 1,
        _ if is_time => return None,
        _ => 1,
    };
    Some(number * unit)
}

#[test]
fn every_error_code_is_in_the_protocol() {
    let protocol = std::fs::read_to_string(root().join("PROTOCOL.md")).expect("PROTOCOL.md");
    let serves = |file: &File| {
        ["access", "hub", "deliver"]
            .iter()
            .any(|name| file.path.starts_with(&format!("crates/{name}/src/")))
    };
    let mut missing = BTreeSet::new();
    for file in rust_files().iter().filter(|f| serves(f)) {
        let product = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for code in codes(product) {
            if !protocol.contains(&format!("| `{code}`")) {
                missing.insert(format!("{code} ({})", file.path));
            }
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    assert_none("these codes are not in PROTOCOL.md's table of errors", &missing);
}

/// The codes that a file's problems are made with: the first literal after a constructor.
fn codes(text: &str) -> Vec<&str> {
    let constructors = ["Problem::new(", "Problem::bad_request(", "error("];
    let mut codes = Vec::new();
    for constructor in constructors {
        for (at, _) in text.match_indices(constructor) {
            let arguments = text[at + constructor.len()..].split(';').next().unwrap_or_default();
            let literal = arguments.split('"').nth(1).unwrap_or_default();
            let code = |c: char| c.is_ascii_alphabetic() || c == '_';
            if literal.len() > 3 && literal != "error" && literal.chars().all(code) {
                codes.push(literal);
            }
        }
    }
    codes
}

#[test]
fn ci_runs_the_command_that_the_readme_names() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file");
    assert!(read(".ci/run").lines().any(|line| line.trim().ends_with("./test")));
    assert!(read("README.md").contains("./test"));
}
