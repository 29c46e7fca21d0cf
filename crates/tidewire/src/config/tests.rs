//! All layers together: which one wins, and the errors for wrong values.

use super::*;

/// Loads from a file's text in a folder of its own, variables and flags.
fn load_from(
    text: Option<&str>,
    variables: &[(&str, &str)],
    flags: Vec<(&'static str, &'static str, String)>,
) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(text) = text {
        std::fs::write(folder.path().join(FILE_NAME), text).expect("a file");
    }
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    let given = RawSettings { file: None, flags };
    load(given, variables, folder.path()).map_err(|problems| problems.to_string())
}

fn refused(text: &str, variables: &[(&str, &str)]) -> String {
    load_from(Some(text), variables, Vec::new()).err().expect("a refusal")
}

#[test]
fn flags_are_stronger_than_variables_than_the_file_than_the_defaults() {
    let file = "listen = \"127.0.0.1:1\"\ndata = \"of-file\"\npublic_url = \"http://of-file\"\n";
    let variables = [("TIDEWIRE_LISTEN", "127.0.0.1:2"), ("TIDEWIRE_DATA", "of-variable")];
    let flags = vec![("--listen", "listen", "127.0.0.1:3".to_owned())];
    let config = load_from(Some(file), &variables, flags).expect("a configuration");
    assert_eq!(config.settings.listen, "127.0.0.1:3");
    assert_eq!(config.settings.data, Path::new("of-variable"));
    assert_eq!(config.settings.public_url, "http://of-file");
    assert_eq!(config.settings.database, "");
}

#[test]
fn a_mistaken_key_is_named_with_its_line_and_a_suggestion() {
    let file = "# mine\n[streams]\nlong_pol_ms = 1\n";
    let expected = "unknown key streams.long_pol_ms in tidewire.toml line 3; did you mean streams.long_poll_ms?";
    assert_eq!(refused(file, &[]), expected);
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let file = "listen = 4437\nstreams = 5\nadmin_key = \"hunter2hunter2hu\"\n\
                [webhooks]\nallow_loopback = \"yes\"\n[strems]\n[limits]\n";
    let variables = [
        ("TIDEWIRE_STREAMS_LONG_POLL_MS", "soon"),
        ("TIDEWIRE_LOG_FALLBACK_POLL_MS", "0"),
        ("TIDEWIRE_TELEMETRY_LEVEL", "loud"),
        ("TIDEWIRE_DATABASE", "mysql://u:secret@h/d"),
        ("TIDEWIRE_ALLOWED_ORIGINS", "https://a.example,b.example"),
    ];
    let refused = refused(file, &variables);
    assert!(!refused.contains("secret@") && !refused.contains("hunter2"));
    insta::assert_snapshot!(refused);
}

#[test]
fn a_file_that_was_named_must_exist() {
    let variables = [("TIDEWIRE_CONFIG", "missing.toml")];
    let refused = load_from(None, &variables, Vec::new()).err().expect("a refusal");
    assert!(refused.starts_with("cannot read the configuration missing.toml: "), "{refused}");
}

#[test]
fn the_effective_configuration_shows_origins_and_no_secrets() {
    let file = "[streams]\nlong_poll_ms = 1000\n";
    let variables = [
        ("TIDEWIRE_DATABASE", "postgres://u:secret@h/d"),
        ("TIDEWIRE_ADMIN_KEY", "hunter2hunter2hu"),
    ];
    let flags = vec![("--listen", "listen", "127.0.0.1:3".to_owned())];
    let config = load_from(Some(file), &variables, flags).expect("a configuration");
    let shown = show::effective(&config);
    assert!(!shown.contains("secret@") && !shown.contains("hunter2"));
    let changed: Vec<&str> = shown.lines().filter(|line| line.contains(" # ")).collect();
    insta::assert_snapshot!(changed.join("\n"));
}

#[test]
fn what_is_shown_can_be_used_as_a_file() {
    let config = load_from(None, &[], Vec::new()).expect("the defaults");
    let shown = show::effective(&config);
    let again = load_from(Some(&shown), &[], Vec::new()).expect("the same");
    let values = |config: &Config| -> Vec<(String, Value)> {
        config.effective.iter().map(|s| (s.key.clone(), s.value.clone())).collect()
    };
    assert_eq!(values(&config), values(&again));
    load_from(Some(file::DEFAULT), &[], Vec::new()).expect("the reference itself");
}

#[test]
fn tables_have_rules_of_their_own() {
    let file = "[tables.orders]\nread = \"owner = auth.user_id()\"\n\n[tables.sales.orders]\nread = \"a > 1\"\n";
    let config = load_from(Some(file), &[], Vec::new()).expect("a configuration");
    let rules = |config: &Config| -> Vec<(String, String, String)> {
        let tables = config.settings.tables.iter();
        tables.map(|(table, it)| (table.clone(), it.read.clone(), it.place.clone())).collect()
    };
    let rule = |table: &str, read: &str, line: usize| {
        (table.to_owned(), read.to_owned(), format!("tidewire.toml line {line}"))
    };
    let expected = [rule("orders", "owner = auth.user_id()", 2), rule("sales.orders", "a > 1", 5)];
    assert_eq!(rules(&config), expected);
    let shown = show::effective(&config);
    let again = load_from(Some(&shown), &[], Vec::new()).expect("what is shown can be used");
    let texts = |config: &Config| -> Vec<(String, String)> {
        rules(config).into_iter().map(|(table, read, _)| (table, read)).collect()
    };
    assert_eq!(texts(&again), texts(&config));
    assert!(shown.contains("[tables.orders]\nread = "), "{shown}");
    for wrong in ["[tables.orders]\nread = 5\n", "[tables.orders]\nread = \" \"\n"] {
        assert!(refused(wrong, &[]).contains("a condition on a row"), "{wrong}");
    }
    assert!(refused("[tables.orders]\nwrite = \"x\"\n", &[]).contains("unknown key"));
    let twice = "[tables.sales.orders]\nread = \"a\"\n[tables.\"sales.orders\"]\nread = \"b\"\n";
    assert!(refused(twice, &[]).contains("one rule for each table"), "{}", refused(twice, &[]));
}

#[test]
fn odd_names_of_tables_are_shown_so_that_they_can_be_used() {
    let file =
        "[tables.'\"Odd.Name\"']\nread = \"a > 1\"\n[tables.\"public.Orders\"]\nread = \"true\"\n";
    let config = load_from(Some(file), &[], Vec::new()).expect("a configuration");
    let names = |config: &Config| config.settings.tables.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&config), ["\"Odd.Name\"", "public.Orders"]);
    let shown = show::effective(&config);
    let again = load_from(Some(&shown), &[], Vec::new()).expect("what is shown can be used");
    assert_eq!(names(&again), names(&config));
}
