//! The layers inside `deliver`: an import goes down only.
//!
//! ```text
//!   wire ◄── access ◄── hub ◄── the modules at the root of the crate, in an order of their own
//! ```

use std::collections::BTreeSet;

use tidewire_tidy::files;

const SOURCE: &str = "crates/deliver/src/";

/// Each layer that has a folder, and those that it may import besides itself.
const LAYERS: &[(&str, &[&str])] =
    &[("wire", &[]), ("access", &["wire"]), ("hub", &["wire", "access"])];

/// The modules at the root of the crate: each may import those above it, and every layer.
const ROOT: &[&str] = &[
    // What requests are made of, and what several routes share.
    "bearer",
    "body",
    "carrier",
    "document",
    "metrics",
    "page",
    "pages",
    "readers",
    "readiness",
    "retention",
    "signer",
    "sql_problem",
    "groups",
    "sessions",
    // All of them together, for the routes that are not taken apart.
    "node",
    "browser",
    "control",
    "door",
    "entities",
    "hub_body",
    "nodes",
    "scrape",
    "administration",
    "operations",
    "sql",
    "streams",
    "subscriptions",
    "live",
    "session_requests",
    // Who hands requests out, and who takes connections.
    "router",
    "connection",
    "server",
];

/// Every source file: its path inside the crate, and its text.
fn sources() -> Vec<(String, String)> {
    let sources = files().into_iter().filter(|file| file.is("rs"));
    let inside = |path: &str| path.strip_prefix(SOURCE).map(str::to_owned);
    sources.filter_map(|file| Some((inside(&file.path)?, file.text))).collect()
}

#[test]
fn modules_at_the_root_import_those_before_them() {
    let sources = sources();
    let for_tests = modules_for_tests(&sources);
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in &sources {
        let module = module_of(path);
        let root = module.split("::").next().unwrap_or_default().to_owned();
        let is_layer = |name: &str| LAYERS.iter().any(|(layer, _)| *layer == name);
        if is_layer(&root) || root == "lib" || is_for_tests(&module, &for_tests) {
            continue;
        }
        let Some(place) = ROOT.iter().position(|name| *name == root) else {
            found.insert((path.clone(), "is not in the order of the root's modules".to_owned()));
            continue;
        };
        seen.insert(ROOT[place]);
        for name in imported(&module, product(text)) {
            let before = ROOT[..place].contains(&name.as_str());
            if name != root && !before && !is_layer(&name) {
                found.insert((path.clone(), name));
            }
        }
    }
    assert_eq!(seen, ROOT.iter().copied().collect(), "the rule names modules that are not there");
    assert!(found.is_empty(), "these import against the order of the root's modules: {found:#?}");
}

#[test]
fn imports_follow_the_layers() {
    let sources = sources();
    let for_tests = modules_for_tests(&sources);
    let (mut found, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in &sources {
        let layer = LAYERS.iter().find(|(layer, _)| path.starts_with(&format!("{layer}/")));
        let Some((layer, allowed)) = layer else { continue };
        let module = module_of(path);
        if is_for_tests(&module, &for_tests) {
            continue;
        }
        for name in imported(&module, product(text)) {
            if name == *layer {
                continue;
            }
            match allowed.iter().find(|other| **other == name) {
                Some(other) => used.insert((*layer, *other)),
                None => found.insert((path.clone(), name)),
            };
        }
    }
    let arrows =
        LAYERS.iter().flat_map(|(layer, allowed)| allowed.iter().map(move |o| (*layer, *o)));
    assert_eq!(used, arrows.collect(), "the rule has lost sight of what it is about");
    assert!(found.is_empty(), "these import against the layers: {found:#?}");
}

/// `hub/kinds/mod.rs` as `hub::kinds`.
fn module_of(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    path.strip_suffix("/mod").unwrap_or(path).replace('/', "::")
}

fn is_for_tests(module: &str, for_tests: &[String]) -> bool {
    for_tests.iter().any(|test| format!("{module}::").starts_with(&format!("{test}::")))
}

/// Modules in files of their own that are compiled for tests only.
fn modules_for_tests(sources: &[(String, String)]) -> Vec<String> {
    let mut modules = Vec::new();
    for (path, text) in sources {
        for after in text.split("#[cfg(test)]\n").skip(1) {
            let line = after.lines().next().unwrap_or_default();
            let named = line.split_once("mod ").map(|(_, rest)| rest);
            let name = named.and_then(|rest| rest.strip_suffix(';'));
            modules.extend(name.map(|name| match &*module_of(path) {
                "lib" => name.to_owned(),
                module => format!("{module}::{name}"),
            }));
        }
    }
    modules
}

/// A file without its module of tests, which stands at its end.
fn product(text: &str) -> &str {
    let tests = text.match_indices("#[cfg(test)]\nmod ");
    let mut inline =
        tests.filter(|(at, _)| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{')));
    inline.next().map_or(text, |(at, _)| &text[..at])
}

/// The modules at the crate's root that a module names, however it does.
fn imported(module: &str, text: &str) -> BTreeSet<String> {
    let code: Vec<&str> =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let to_root = "super::".repeat(module.split("::").count());
    let mut names = BTreeSet::new();
    for root in ["crate::", &to_root] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || "_$:".contains(c)) {
                names.extend(first_names(&code[at + root.len()..]));
            }
        }
    }
    names
}

/// The first name of a path; of a group, the first of each path in it.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Parts of the hub that know neither the kinds of subscription nor who is connected: they are what kinds are
/// made with.
const BELOW_KINDS: &[&str] = &[
    "changes.rs",
    "cursor.rs",
    "encode.rs",
    "horizon.rs",
    "lens/",
    "lookup.rs",
    "messages/",
    "offset.rs",
    "reader_frame.rs",
    "refusal.rs",
    "tail/",
    "views.rs",
];

#[test]
fn kinds_of_subscription_do_not_know_each_other() {
    let (mut found, mut looked_at) = (Vec::new(), BTreeSet::new());
    for file in files().into_iter().filter(|file| file.is("rs")) {
        let Some(path) = file.path.strip_prefix("crates/deliver/src/hub/") else { continue };
        let code = product(&file.text);
        if BELOW_KINDS.iter().any(|part| path.starts_with(part)) {
            let above = ["hub::kinds", "hub::shard"].into_iter().find(|name| code.contains(name));
            found.extend(above.map(|name| format!("{path} names {name}")));
        }
        let kind = path.strip_prefix("kinds/").and_then(|rest| rest.split_once('/'));
        let Some((kind, _)) = kind else { continue };
        looked_at.insert(kind.to_owned());
        for (at, _) in code.match_indices("kinds::") {
            let other = first_names(&code[at + "kinds::".len()..]);
            // What all kinds share are types; a kind is a module.
            let is_module = |name: &&String| name.starts_with(char::is_lowercase);
            let strange = other.iter().filter(is_module).filter(|name| **name != kind);
            found.extend(strange.map(|name| format!("{path} names kinds::{name}")));
        }
    }
    assert!(looked_at.len() >= 3, "the rule has lost sight of what it is about: {looked_at:?}");
    assert!(found.is_empty(), "against the arrows inside the hub: {found:#?}");
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let names = |text: &str| -> Vec<String> { imported("hub::tail", text).into_iter().collect() };
    assert_eq!(names("use crate::node::Node;"), ["node"]);
    assert_eq!(names("use crate::{\n    hub::{a, b},\n    node::Node,\n};"), ["hub", "node"]);
    assert_eq!(names("    let now = crate::node::now_ms();"), ["node"]);
    assert_eq!(names("use super::super::node::Node; use super::shard;"), ["node"]);
    assert_eq!(names("// as crate::node::Node does\nuse tidewire_store::Log;"), [""; 0]);
}
