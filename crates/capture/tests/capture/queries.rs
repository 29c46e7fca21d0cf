//! Whether our queries fit the schema, and are all used.

use std::path::Path;

use crate::stage::Stage;

#[tokio::test]
async fn every_query_can_be_prepared_and_is_used() {
    let stage = Stage::set_without_capture().await;
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let code = text_of(&home.join("src"));
    for entry in std::fs::read_dir(home.join("sql")).expect("the folder is there") {
        let path = entry.expect("a readable folder").path();
        let sql = std::fs::read_to_string(&path).expect("a readable file");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let prepared = stage.sql.prepare(&sql).await;
        prepared.unwrap_or_else(|error| panic!("{name}.sql: {error:?}"));
        assert!(code.contains(&format!("sql!(\"{name}\")")), "{name}.sql is not used");
    }
    stage.strike().await;
}

/// A plan that is made while the log is small stays in use while it grows.
#[tokio::test]
async fn counting_never_walks_the_whole_log() {
    let stage = Stage::set_without_capture().await;
    for method in ["seqscan", "bitmapscan", "hashjoin", "mergejoin"] {
        stage.run(&format!("SET enable_{method} = off")).await;
    }
    let tally = concat!("EXPLAIN (COSTS OFF) ", include_str!("../../sql/tally.sql"));
    let plan = stage.sql.query(tally, &[]).await.expect("a plan");
    let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let begins_at_the_last =
        |line: &String| line.contains("Index Cond:") && line.contains("c_offset > GREATEST(");
    assert!(lines.iter().any(begins_at_the_last), "{lines:#?}");
    stage.strike().await;
}

fn text_of(folder: &Path) -> String {
    let paths = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it").path());
    let text = |path: std::path::PathBuf| {
        if path.is_dir() {
            text_of(&path)
        } else {
            std::fs::read_to_string(&path).expect("a readable file")
        }
    };
    paths.map(text).collect()
}
