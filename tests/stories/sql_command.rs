//! A person at a terminal: `tidewire sql`, `watch`, `unwatch` and `capture`.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tidewire_stories::{Ended, Http, Launch, Process, Store, eventually, on_both_stores};

on_both_stores!(
    sql_from_the_shell_prints_tables_json_and_csv,
    a_table_is_watched_listed_and_let_go,
    sql_is_typed_line_by_line_at_a_terminal,
);

const KEY: &str = "story-a4e70d19c6b3852f";

/// Runs `tidewire` as someone types it.
async fn tidewire(http: &Http, words: &[&str]) -> Ended {
    let launch = Launch::command(words[0]).with(words[1..].iter().copied());
    launch.set("TIDEWIRE_URL", http.base()).set("TIDEWIRE_TOKEN", KEY).run().await
}

/// Runs it, and it must succeed. Returns what it printed.
async fn done(http: &Http, words: &[&str]) -> String {
    let ended = tidewire(http, words).await;
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.said);
    ended.printed
}

async fn sql_from_the_shell_prints_tables_json_and_csv(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    done(http, &["sql", "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"]).await;
    let insert = "INSERT INTO t VALUES ($1, $2)";
    for (id, name) in [("1", "Ann"), ("22", "\"it's, so\"")] {
        let ended = tidewire(http, &["sql", insert, "--param", id, "--param", name]).await;
        assert_eq!((ended.code, ended.printed.as_str()), (Some(0), ""), "{}", ended.said);
        assert!(ended.said.contains("1 row changed."), "{}", ended.said);
    }
    let select = "SELECT id, name FROM t ORDER BY id";
    let table = " id │   name\n────┼──────────\n  1 │ Ann\n 22 │ it's, so\n(2 rows)\n";
    assert_eq!(done(http, &["sql", select]).await, table);
    let json = "{\"id\":1,\"name\":\"Ann\"}\n{\"id\":22,\"name\":\"it's, so\"}\n";
    assert_eq!(done(http, &["sql", "--json", select]).await, json);
    let csv = "id,name\n1,Ann\n22,\"it's, so\"\n";
    assert_eq!(done(http, &["sql", "--csv", select]).await, csv);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("script.sql");
    std::fs::write(&file, "DELETE FROM t;\nINSERT INTO t VALUES (3, NULL) RETURNING id;")
        .expect("a file");
    let file = file.to_string_lossy();
    assert_eq!(done(http, &["sql", "--csv", "-f", &file]).await, "id\n3\n");

    let ended = tidewire(http, &["sql", "SELECT 1\n, nothing_here"]).await;
    assert_eq!((ended.code, ended.printed.as_str()), (Some(1), ""), "{}", ended.said);
    assert!(ended.said.contains("line 2: , nothing_here\n          ^"), "{}", ended.said);
    let launch = Launch::command("sql").with(["SELECT 1"]).set("TIDEWIRE_URL", http.base());
    let ended = launch.set("TIDEWIRE_TOKEN", "wrong-key").run().await;
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(!ended.said.contains("wrong-key"), "{}", ended.said);
}

async fn a_table_is_watched_listed_and_let_go(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    done(http, &["sql", "CREATE TABLE projects (a INTEGER, b INTEGER, host TEXT)"]).await;
    let words =
        ["watch", "projects", "--key", "a,b", "--entity", "project", "--host-column", "host"];
    assert_eq!(done(http, &words).await, "table/projects\n");
    done(http, &["sql", "INSERT INTO projects VALUES (1, 2, 'acme')"]).await;
    // Counts are brought up to date now and then.
    eventually("the list shows the change", async || {
        let list = done(http, &["watch", "--list"]).await;
        let row = list.lines().nth(1).expect("a table");
        ["projects", "a,b", "project", " 1 "].iter().all(|part| row.contains(part)).then_some(())
    })
    .await;
    let json = done(http, &["watch", "--list", "--json"]).await;
    assert!(json.contains("\"host_column\":\"host\""), "{json}");
    let capture = done(http, &["capture"]).await;
    assert!(capture.starts_with("mode      "), "{capture}");
    assert!(done(http, &["capture", "status", "--json"]).await.contains("\"mode\":"));
    done(http, &["unwatch", "projects"]).await;
    let ended = tidewire(http, &["unwatch", "projects"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("cannot stop watching projects"), "{}", ended.said);
    let ended = tidewire(http, &["watch", "no_such_table"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    if matches!(store, Store::Sqlite { .. }) {
        let ended = tidewire(http, &["capture", "switch", "wal"]).await;
        assert_eq!(ended.code, Some(1), "{}", ended.said);
    }
}

/// A terminal of its own for `tidewire sql`, which `script` makes, and someone who types at it.
struct Typist {
    process: Process,
    /// Holds the folder that it runs in.
    _launch: Launch,
    keyboard: std::fs::File,
    _folder: tempfile::TempDir,
}

impl Typist {
    fn sit_down(http: &Http, home: &Path) -> Typist {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("keyboard");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success(), "mkfifo {}", pipe.display());
        // Open at both ends, so that it does not wait for the other side, and does not end.
        let keyboard = std::fs::File::options().read(true).write(true).open(&pipe);
        let pipe = pipe.to_string_lossy().into_owned();
        let terminal = "script -qec \"$1 sql\" /dev/null < \"$0\"".to_owned();
        let launch = Launch::command("--")
            .wrapped_in(vec!["sh".to_owned(), "-c".to_owned(), terminal, pipe])
            .set("TIDEWIRE_URL", http.base())
            .set("TIDEWIRE_TOKEN", KEY)
            .set("HOME", &home.to_string_lossy())
            .set("XDG_STATE_HOME", "")
            .set("TERM", "xterm");
        let process = launch.spawn();
        let keyboard = keyboard.expect("a pipe");
        Typist { process, _launch: launch, keyboard, _folder: folder }
    }

    /// Types lines once it is asked for the next, and waits until all of this has been said since.
    async fn types(&mut self, lines: &str, then: &[&str]) {
        let asked = |said: &str| said.ends_with("[?2026l") || said.ends_with("tidewire> ");
        eventually("a prompt", async || asked(&self.process.said()).then_some(())).await;
        let before = self.process.said().len();
        self.keyboard.write_all(lines.as_bytes()).expect("a keyboard");
        for part in then {
            let what = format!("{part:?} after {lines:?}");
            let said = async || self.process.said()[before..].contains(part).then_some(());
            eventually(&what, said).await;
        }
    }
}

/// What is typed is echoed, run, drawn and remembered.
async fn sql_is_typed_line_by_line_at_a_terminal(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let home = tempfile::tempdir().expect("a folder");
    let mut typist = Typist::sit_down(server.http(), home.path());
    typist.types("CREATE TABLE t (id INTEGER PRIMARY KEY);\r", &["0 rows changed."]).await;
    typist.types("INSERT INTO t\rVALUES (41), (42);\r", &["2 rows changed."]).await;
    typist
        .types("SELECT id FROM\rt ORDER BY id;\r", &[" id\r\n────\r\n 41\r\n 42\r\n(2 rows)"])
        .await;
    typist.types("\\d\r", &["│ table", "(1 row)"]).await;
    typist.types("\\d t\r", &[" id ", "(1 row)"]).await;
    typist.types("SELEKT 1;\r", &["line 1: SELEKT 1;\r\n        ^"]).await;
    typist.types("\\x\r", &["\r\n"]).await;
    typist.types("SELECT 1 AS one;\r", &["─[ 1 ]", "one │ 1"]).await;
    typist.types("\\?\r", &["SQL ends with a semicolon"]).await;
    typist.types("\\q\r", &[]).await;
    let ended = typist.process.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let history = home.path().join(".local/state/tidewire/sql_history");
    let kept = std::fs::read_to_string(&history).expect("a history");
    assert!(kept.contains("SELECT id FROM"), "{kept}");
    let mode = std::fs::metadata(&history).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
}
