//! `tidewire config`: layers, origins, mistakes.

use crate::run::Folder;

#[test]
fn the_default_file_is_printed_as_it_is() {
    let printed = Folder::new().run(&["config", "--default"]).printed();
    assert_eq!(printed, include_str!("../../../options/src/default.toml"));
}

#[test]
fn each_layer_is_named_behind_what_it_sets() {
    let folder = Folder::with_config(
        "database = \"postgres://app:hunter2@db.example/app\"\n\
         [streams]\nlong_poll_ms = 1000\nsse_ms = 2000\n[telemetry]\nformat = \"json\"\n",
    );
    let variables = [
        ("TIDEWIRE_STREAMS_SSE_MS", "3000"),
        ("TIDEWIRE_WEBHOOKS_ALLOW_LOOPBACK", "true"),
        ("TIDEWIRE_ALLOWED_ORIGINS", "https://a.example,https://b.example"),
        ("TIDEWIRE_ADMIN_KEY", "correct-horse-battery"),
    ];
    let arguments = ["config", "--listen", "127.0.0.1:9", "--data", "elsewhere"];
    let printed = folder.run_with(&arguments, &variables).printed();
    assert!(printed.contains("\n[streams]\n"), "{printed}");
    let with_origin: Vec<&str> = printed.lines().filter(|line| line.contains('#')).collect();
    insta::assert_snapshot!(with_origin.join("\n"));
}

#[test]
fn a_named_file_is_taken_instead_of_the_one_in_the_folder() {
    let folder = Folder::with_config("data = \"of-the-folder\"\n");
    std::fs::write(folder.path().join("other.toml"), "data = \"of-other\"\n").expect("a file");
    std::fs::write(folder.path().join("third.toml"), "data = \"of-third\"\n").expect("a file");

    let printed = folder.run(&["config"]).printed();
    assert!(printed.contains("data = \"of-the-folder\" # tidewire.toml line 1"), "{printed}");

    let other = [("TIDEWIRE_CONFIG", "other.toml")];
    let printed = folder.run_with(&["config"], &other).printed();
    assert!(printed.contains("data = \"of-other\" # other.toml line 1"), "{printed}");

    let printed = folder.run_with(&["config", "--config", "third.toml"], &other).printed();
    assert!(printed.contains("data = \"of-third\" # third.toml line 1"), "{printed}");
}

#[test]
fn a_mistaken_key_comes_with_a_suggestion() {
    let folder = Folder::with_config("# ours\n[streams]\nlong_pol_ms = 1\n");
    assert_eq!(
        folder.run(&["config"]).complained(),
        "tidewire: unknown key streams.long_pol_ms in tidewire.toml line 3; did you mean \
         streams.long_poll_ms?\n"
    );
}

#[test]
fn a_mistaken_variable_comes_with_a_suggestion() {
    let variables = [("TIDEWIRE_LISTN", "127.0.0.1:1"), ("TIDEWIRE_TEST_STORE", "sqlite")];
    assert_eq!(
        Folder::new().run_with(&["config"], &variables).complained(),
        "tidewire: unknown variable TIDEWIRE_LISTN; did you mean TIDEWIRE_LISTEN?\n"
    );
}

#[test]
fn a_wrong_value_is_named_with_what_was_expected() {
    let folder = Folder::with_config("[limits]\nbody_bytes_max = \"16MB\"\n");
    let variables = [("TIDEWIRE_STREAMS_LONG_POLL_MS", "-1")];
    let complaint = folder.run_with(&["config", "--listen", "4437"], &variables).complained();
    insta::assert_snapshot!(complaint);
}
