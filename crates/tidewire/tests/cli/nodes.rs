//! `tidewire nodes`, on a server that runs.

use crate::run::Folder;
use crate::running::{dev, listening};

#[test]
fn the_node_that_answers_is_marked() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    let printed = folder.run(&["nodes", "--url", &url]).printed();
    let [head, node] = printed.lines().collect::<Vec<_>>()[..] else {
        panic!("{printed}");
    };
    let names: Vec<&str> =
        head.split("  ").filter(|name| !name.is_empty()).map(str::trim).collect();
    let expected = ["NODE", "URL", "VERSION", "UP SINCE", "LEASE", "CONNECTIONS", "SUBSCRIPTIONS"];
    assert_eq!(names[..7], expected);
    assert_eq!(names[7], "LAG");
    assert!(node.starts_with("*  "), "{printed}");
    assert!(node.contains(&url) && node.contains(env!("CARGO_PKG_VERSION")), "{printed}");
    assert_eq!(node.find(&url), head.find("URL"), "{printed}");
    assert_eq!(node.len(), head.len(), "{printed}");
}

#[test]
fn a_program_gets_a_json_object_a_line() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    let printed = folder.run(&["nodes", "--json", "--url", &url]).printed();
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let node: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((&node["url"], &node["self"]), (&url.as_str().into(), &true.into()));
    for member in ["node", "version", "startedAt", "leaseMs", "connections", "position", "lag"] {
        assert!(node.get(member).is_some(), "{member} of {node}");
    }
}

#[test]
fn whoever_has_no_key_is_told_so() {
    let folder = Folder::new();
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TIDEWIRE_ADMIN_KEY", "correct-horse-battery");
    let (_server, url) = listening(command);
    let complaint = folder.run(&["nodes", "--url", &url]).complained();
    assert!(complaint.starts_with("tidewire: cannot list the nodes: "), "{complaint}");
    assert!(complaint.contains("unauthorized"), "{complaint}");
    folder.run(&["nodes", "--url", &url, "--token", "correct-horse-battery"]).printed();
}
