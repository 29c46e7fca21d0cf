//! The queries of a crate: a file each, in its folder `sql`.

use std::path::{Path, PathBuf};

/// The queries in the folder `sql` of the crate at `home`: names and texts. Panics if there is one that
/// no code of the crate uses.
#[must_use]
pub fn queries_in_use(home: &str) -> Vec<(String, String)> {
    let home = Path::new(home);
    let code: String = files(&home.join("src")).into_iter().map(|(_, text)| text).collect();
    let queries = files(&home.join("sql"));
    assert!(!queries.is_empty());
    for (name, _) in &queries {
        assert!(code.contains(&format!("sql!(\"{name}\")")), "sql/{name}.sql is not used");
    }
    queries
}

/// The files of a folder and of those in it: names without extension, and contents.
fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let read = |path: PathBuf| {
        if path.is_dir() {
            return files(&path);
        }
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        vec![(name, std::fs::read_to_string(&path).expect("a readable file"))]
    };
    paths.flat_map(read).collect()
}
