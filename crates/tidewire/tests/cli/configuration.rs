//! `tidewire config`: layers, origins, mistakes.

use crate::run::{Ended, Folder};

#[test]
fn the_default_file_is_printed_as_it_is() {
    let printed = Folder::new().run(&["config", "--default"]).printed();
    assert_eq!(printed, include_str!("../../src/default.toml"));
}

#[test]
fn each_layer_is_named_behind_what_it_sets() {
    let folder = Folder::with_config(
        "database = \"postgres://app:hunter2@db.example/app\"\n\
         [streams]\nlong_poll_ms = 1000\nsse_ms = 2000\n[telemetry]\nformat = \"json\"\n",
    );
    let mut command = folder.command(&["config", "--listen", "127.0.0.1:9", "--data", "elsewhere"]);
    command.env("TIDEWIRE_STREAMS_SSE_MS", "3000");
    command.env("TIDEWIRE_WEBHOOKS_ALLOW_LOOPBACK", "true");
    command.env(
        "TIDEWIRE_ALLOWED_ORIGINS",
        "https://a.example,https://b.example",
    );
    command.env("TIDEWIRE_ADMIN_KEY", "correct-horse-battery");
    insta::assert_snapshot!(Ended::of(command).printed());
}

#[test]
fn a_named_file_is_taken_instead_of_the_one_in_the_folder() {
    let folder = Folder::with_config("data = \"of-the-folder\"\n");
    std::fs::write(folder.path().join("other.toml"), "data = \"of-other\"\n").expect("a file");
    std::fs::write(folder.path().join("third.toml"), "data = \"of-third\"\n").expect("a file");

    let printed = folder.run(&["config"]).printed();
    assert!(
        printed.contains("data = \"of-the-folder\" # tidewire.toml line 1"),
        "{printed}"
    );

    let mut command = folder.command(&["config"]);
    command.env("TIDEWIRE_CONFIG", "other.toml");
    let printed = Ended::of(command).printed();
    assert!(
        printed.contains("data = \"of-other\" # other.toml line 1"),
        "{printed}"
    );

    let mut command = folder.command(&["config", "--config", "third.toml"]);
    command.env("TIDEWIRE_CONFIG", "other.toml");
    let printed = Ended::of(command).printed();
    assert!(
        printed.contains("data = \"of-third\" # third.toml line 1"),
        "{printed}"
    );
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
    let mut command = Folder::new().command(&["config"]);
    command
        .env("TIDEWIRE_LISTN", "127.0.0.1:1")
        .env("TIDEWIRE_TEST_STORE", "sqlite");
    assert_eq!(
        Ended::of(command).complained(),
        "tidewire: unknown variable TIDEWIRE_LISTN; did you mean TIDEWIRE_LISTEN?\n"
    );
}

#[test]
fn a_wrong_value_is_named_with_what_was_expected() {
    let folder = Folder::with_config("[limits]\nbody_bytes_max = \"16MB\"\n");
    let mut command = folder.command(&["config", "--listen", "4437"]);
    command.env("TIDEWIRE_STREAMS_LONG_POLL_MS", "-1");
    insta::assert_snapshot!(Ended::of(command).complained());
}
