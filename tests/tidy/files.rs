//! The files of the repository as git knows them, for the tidy test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A tracked (or new and not ignored) text file.
#[derive(Debug)]
pub struct File {
    /// Its path from the repository's root, with forward slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// Whether the path ends in `.extension`.
    pub fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// All text files. Those that are not UTF-8 are data, and left out.
pub fn files() -> Vec<File> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(listed.status.success(), "git ls-files failed: {listed:?}");
    let names = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    let files: Vec<File> = names
        .lines()
        .filter_map(|path| {
            let text = std::fs::read_to_string(root().join(path)).ok()?;
            Some(File { path: path.to_owned(), text })
        })
        .collect();
    assert!(files.len() > 50, "the repository has more files than {}", files.len());
    files
}
