//! The order of modules inside `hub` and `deliver`: an import goes down only. Between crates Cargo sees to that, and
//! `dependencies_point_one_way`.

use std::collections::BTreeSet;

use tidewire_tidy::files;

const DELIVER: &str = "crates/deliver/src/";
const HUB: &str = "crates/hub/src/";

/// The modules of `deliver`: each may import those above it.
const ROOT: &[&str] = &[
    // What requests are made of, and what several routes share.
    "bad_request",
    "bearer",
    "query_string",
    "body",
    "carrier",
    "document",
    "metrics",
    "index_page",
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
    "origin",
    "control",
    "authenticate",
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

/// Every source file of `deliver`: its path inside the crate, and its text.
fn sources() -> Vec<(String, String)> {
    let sources = files().into_iter().filter(|file| file.is("rs"));
    let inside = |path: &str| path.strip_prefix(DELIVER).map(str::to_owned);
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
        if root == "lib" || is_for_tests(&module, &for_tests) {
            continue;
        }
        let Some(place) = ROOT.iter().position(|name| *name == root) else {
            found.insert((path.clone(), "is not in the order of the root's modules".to_owned()));
            continue;
        };
        seen.insert(ROOT[place]);
        for name in imported(&module, product(text)) {
            let before = ROOT[..place].contains(&name.as_str());
            if name != root && !before {
                found.insert((path.clone(), name));
            }
        }
    }
    assert_eq!(seen, ROOT.iter().copied().collect(), "the rule names modules that are not there");
    assert!(found.is_empty(), "these import against the order of the root's modules: {found:#?}");
}

/// `kinds/query/mod.rs` as `kinds::query`.
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
    let first = |path: &Vec<String>| path.first().cloned();
    named(module, text).iter().filter_map(first).collect()
}

/// The paths inside the crate that a module names, from the crate's root on: by `crate::`, `super::` or `self::`, in
/// imports and elsewhere; of a group, each path in it.
fn named(module: &str, text: &str) -> BTreeSet<Vec<String>> {
    let code: Vec<&str> =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let is_of_name = |c: char| c.is_alphanumeric() || "_$:".contains(c);
    let mut found = BTreeSet::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            if !code[..at].ends_with(is_of_name) {
                let mut paths = Vec::new();
                read_paths(&code[at..], &mut Vec::new(), &mut paths);
                found.extend(paths.into_iter().filter_map(|path| from_root(module, &path)));
            }
        }
    }
    found
}

/// Reads a path, or each of a group, behind what stands before it. Returns what comes after.
fn read_paths<'t>(
    text: &'t str,
    before: &mut Vec<String>,
    paths: &mut Vec<Vec<String>>,
) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            rest = read_paths(rest, &mut before.clone(), paths).trim_start();
            // Another name for it, or the comma.
            match rest.find([',', '}']) {
                Some(end) => rest = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]),
                None => return rest,
            }
        }
    }
    let name = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    before.push(text[..name].to_owned());
    match text[name..].strip_prefix("::") {
        Some(rest)
            if rest.trim_start().starts_with(|c: char| c.is_alphabetic() || "_{".contains(c)) =>
        {
            read_paths(rest, before, paths)
        }
        _ => {
            paths.push(before.clone());
            &text[name..]
        }
    }
}

/// A path as it is from the crate's root on.
fn from_root(module: &str, path: &[String]) -> Option<Vec<String>> {
    let mut root: Vec<String> = module.split("::").map(ToOwned::to_owned).collect();
    let mut names = path.iter().peekable();
    if names.next_if(|name| *name == "crate").is_some() {
        root.clear();
    }
    while let Some(name) = names.next_if(|name| *name == "super" || *name == "self") {
        if name == "super" {
            root.pop()?;
        }
    }
    root.extend(names.cloned());
    Some(root)
}

/// Parts of the hub that know neither the kinds of subscription nor who is connected: they are what kinds are
/// made with.
const BELOW_KINDS: &[&str] = &[
    "changes.rs",
    "cursor.rs",
    "encode.rs",
    "min_offset.rs",
    "row_filter/",
    "lookup.rs",
    "messages/",
    "offset.rs",
    "reader_frame.rs",
    "refusal.rs",
    "tail/",
    "views.rs",
];

/// Parts of the hub that some kinds are made with, and that know none of them.
const BESIDE_KINDS: &[&str] = &["log_feed.rs", "log_feed/", "patience.rs", "forms.rs"];

#[test]
fn kinds_of_subscription_do_not_know_each_other() {
    let (mut found, mut looked_at) = (Vec::new(), BTreeSet::new());
    for file in files().into_iter().filter(|file| file.is("rs")) {
        let Some(path) = file.path.strip_prefix(HUB) else { continue };
        if path.ends_with("tests.rs") {
            continue;
        }
        let names = named(&module_of(path), product(&file.text));
        let is_among = |parts: &[&str]| parts.iter().any(|part| path.starts_with(part));
        if is_among(BELOW_KINDS) {
            let is_above = |name: &&Vec<String>| {
                name.first().is_some_and(|name| name == "kinds" || name == "shard")
            };
            found.extend(names.iter().filter(is_above).map(|name| format!("{path}: {name:?}")));
        }
        let own = path.strip_prefix("kinds/").and_then(|rest| rest.split_once('/'));
        let own = own.map(|(kind, _)| kind);
        if own.is_none() && !is_among(BESIDE_KINDS) {
            continue;
        }
        looked_at.extend(own.map(ToOwned::to_owned));
        let strange =
            names.iter().filter_map(|name| kind_of(name)).filter(|kind| Some(*kind) != own);
        found.extend(strange.map(|kind| format!("{path} names kinds::{kind}")));
    }
    assert!(looked_at.len() >= 3, "the rule has lost sight of what it is about: {looked_at:?}");
    assert!(found.is_empty(), "against the arrows inside the hub: {found:#?}");
}

/// The kind in whose module something is. What all kinds share are types and functions of `kinds` itself.
fn kind_of(path: &[String]) -> Option<&str> {
    const KINDS: &[&str] = &["stream", "table", "entities", "query", "clock"];
    let [kinds, kind, ..] = path else { return None };
    (kinds == "kinds" && KINDS.contains(&&**kind)).then_some(kind)
}

/// The files of the product that the clock, a kind for tests, is named in besides its own: as few as the guide
/// says that another kind touches.
#[test]
fn a_kind_touches_five_files_besides_its_own() {
    let guide = files().into_iter().find(|file| file.path == "CONTRIBUTING.md").expect("the guide");
    let section =
        guide.text.split("\n## Add a kind of subscription\n").nth(1).expect("its section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut touched = Vec::new();
    for file in files().into_iter().filter(|file| file.is("rs")) {
        if !file.path.starts_with(HUB) && !file.path.starts_with(DELIVER) {
            continue;
        }
        let is_its_own = file.path.contains("/kinds/clock/") || file.path.ends_with("/clock.rs");
        let is_named = product(&file.text).split("debug_assertions").skip(1).any(|after| {
            let line: String = after.lines().nth(1).unwrap_or_default().to_lowercase();
            line.contains("clock")
        });
        if is_named && !is_its_own {
            touched.push(file.path.clone());
        }
    }
    assert_eq!(touched.len(), 5, "{touched:#?}");
    for path in touched {
        assert!(section.contains(&path), "the guide does not name {path}");
    }
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let names = |text: &str| -> Vec<String> { imported("tail", text).into_iter().collect() };
    assert_eq!(names("use crate::node::Node;"), ["node"]);
    assert_eq!(names("use crate::{\n    hub::{a, b},\n    node::Node,\n};"), ["hub", "node"]);
    assert_eq!(names("    let now = crate::node::now_ms();"), ["node"]);
    assert_eq!(names("use super::node::Node; use super::shard;"), ["node", "shard"]);
    assert_eq!(names("// as crate::node::Node does\nuse tidewire_store::Log;"), [""; 0]);
    let kinds = |module: &str, text: &str| -> Vec<String> {
        let named = named(module, text);
        named.iter().filter_map(|path| kind_of(path)).map(ToOwned::to_owned).collect()
    };
    let (query, feed) = ("kinds::query::hear", "log_feed");
    assert_eq!(kinds(query, "use super::super::stream::StreamNews;"), ["stream"]);
    assert_eq!(
        kinds(query, "use super::super::{News, entities::{self, Interest as It}};"),
        ["entities"; 2]
    );
    assert_eq!(kinds(query, "use super::begin::Beginning;\nuse crate::kinds::News;"), ["query"]);
    assert_eq!(kinds(feed, "    let x = super::kinds::stream::reader::now();"), ["stream"]);
    assert_eq!(kinds(feed, "use super::kinds::{About, Subject};"), [""; 0]);
    assert_eq!(kinds("kinds", "use self::{stream::X, news::News};"), ["stream"]);
}
