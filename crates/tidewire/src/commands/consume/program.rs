//! Checks at the start that the program of `--exec` can be run.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// Finds the program that a name stands for, as the system does: a path, or a file in one of the folders of `PATH`.
pub(super) fn find(program: &OsStr, path: Option<&OsStr>) -> anyhow::Result<PathBuf> {
    let named = Path::new(program);
    let shown = program.display();
    if program.as_encoded_bytes().contains(&b'/') {
        if !named.exists() {
            bail!("cannot run {shown} (--exec): there is no such file{}", apart(program));
        }
        if named.is_dir() {
            bail!("cannot run {shown} (--exec): it is a folder; name the program in it");
        }
        if !is_program(named) {
            bail!(
                "cannot run {shown} (--exec): the file is not executable; make it executable: chmod +x {shown}"
            );
        }
        return Ok(named.to_owned());
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let found = folders.map(|folder| folder.join(named)).find(|file| is_program(file));
    if let Some(found) = found {
        return Ok(found);
    }
    if named.is_file() {
        bail!(
            "cannot run {shown} (--exec): it is in this folder, which is not in PATH; write ./{shown}"
        );
    }
    bail!("cannot run {shown} (--exec): no folder of PATH has such a program{}", apart(program))
}

/// A command in quotes is one word, and so the name of a program with spaces in it.
fn apart(program: &OsStr) -> String {
    let shown = program.to_string_lossy();
    match shown.contains(' ') {
        true => format!("; write the command without quotes around it: --exec {shown}"),
        false => String::new(),
    }
}

fn is_program(file: &Path) -> bool {
    // Whether it is for us in particular shows when it is run.
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(program: &str, path: &str) -> String {
        find(program.as_ref(), Some(path.as_ref())).expect_err(program).to_string()
    }

    #[test]
    fn a_program_that_is_not_there_is_told_with_what_may_be_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("worker.sh");
        std::fs::write(&script, "#!/bin/sh\n").expect("a file");
        let path = folder.path().to_str().expect("text");
        assert!(missed("worker", path).contains("no folder of PATH has such a program"));
        assert!(missed("sh worker.sh", path).ends_with("--exec sh worker.sh"));
        let script = script.to_str().expect("text");
        assert!(missed(script, path).ends_with(&format!("chmod +x {script}")));
        assert!(missed(path, path).contains("it is a folder"));
        assert!(missed(&format!("{script}.no"), path).contains("there is no such file"));
        let found = find("sh".as_ref(), std::env::var_os("PATH").as_deref()).expect("a shell");
        assert!(found.ends_with("sh"), "{}", found.display());
    }
}
