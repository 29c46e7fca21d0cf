//! What `--help` says. The snapshots are read in review like any other text.

use crate::run::Folder;

fn help(arguments: &[&str]) -> String {
    Folder::new().run(arguments).printed()
}

#[test]
fn of_the_binary() {
    insta::assert_snapshot!(help(&["--help"]));
}

#[test]
fn of_every_command() {
    let commands = [
        "dev", "serve", "migrate", "backup", "restore", "doctor", "config", "publish", "tail",
        "nodes", "queries", "groups", "consume",
    ];
    for command in commands {
        insta::assert_snapshot!(format!("of_{command}"), help(&[command, "--help"]));
    }
}

#[test]
fn of_every_command_about_groups() {
    let commands = [
        &["list"][..],
        &["describe"],
        &["lag"],
        &["create"],
        &["change"],
        &["reset"],
        &["resume"],
        &["delete"],
        &["dead", "list"],
        &["dead", "redrive"],
        &["dead", "drop"],
    ];
    for command in commands {
        let words = [&["groups"], command, &["--help"]].concat();
        insta::assert_snapshot!(format!("of_groups_{}", command.join("_")), help(&words));
    }
}

#[test]
fn the_version_is_the_packages() {
    let expected = format!("tidewire {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(help(&["--version"]), expected);
}

#[test]
fn a_token_in_the_environment_is_not_shown() {
    let variables = [("TIDEWIRE_TOKEN", "tw_secret"), ("TIDEWIRE_URL", "http://u:secret@h")];
    let shown = Folder::new().run_with(&["tail", "--help"], &variables).printed();
    assert!(!shown.contains("secret"), "{shown}");
}
