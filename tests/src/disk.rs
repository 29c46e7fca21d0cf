//! A disk that is small enough to fill: a tmpfs in a mount namespace of its own.
//!
//! The namespace is held by a child process and goes with it, so that a test which is killed leaves
//! no mount behind. Root may make a mount namespace; anyone else may where user namespaces are
//! allowed. Without either the story fails, because a disk that is never full proves nothing.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Mounts, says so, and holds the namespace until the test lets go of its input.
const HOLD: &str = r#"mount -t tmpfs -o "size=$1" tidewire-story "$2" && echo mounted && exec cat"#;

/// A mounted disk. Unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    holder: Child,
    /// How the server gets into the namespace.
    enter: Vec<String>,
    folder: TempDir,
}

impl Disk {
    /// Mounts a disk of this size, such as `8m`.
    pub fn mount(size: &str) -> Disk {
        let as_root = Disk::try_mount(size, &["--mount"], &["--mount"]);
        let as_anyone = || {
            let unshare = ["--user", "--map-root-user", "--mount"];
            Disk::try_mount(size, &unshare, &["--user", "--preserve-credentials", "--mount"])
        };
        as_root.or_else(|first| as_anyone().map_err(|second| (first, second))).unwrap_or_else(
            |(first, second)| {
                panic!(
                    "this story needs a disk of its own, and may not mount one. As root \
                     (CAP_SYS_ADMIN): {first}. In a user namespace: {second}"
                )
            },
        )
    }

    fn try_mount(size: &str, unshare: &[&str], enter: &[&str]) -> Result<Disk, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut holder = Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", HOLD, "sh", size])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let mut said = BufReader::new(holder.stdout.take().expect("a pipe"));
        let mounted = said.read_line(&mut line).is_ok() && line == "mounted\n";
        if !mounted {
            let output = holder.wait_with_output().expect("a child of this process");
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let target = format!("--target={}", holder.id());
        let words = ["nsenter", &target].into_iter().chain(enter.iter().copied());
        Ok(Disk { enter: words.map(ToOwned::to_owned).collect(), holder, folder })
    }

    /// The disk's root, for processes in the namespace.
    pub fn inside(&self) -> &Path {
        self.folder.path()
    }

    /// The disk's root, for this process.
    pub fn outside(&self) -> PathBuf {
        let inside = self.inside().strip_prefix("/").expect("an absolute path");
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(inside)
    }

    /// The command that runs another one in the namespace.
    pub fn enter(&self) -> Vec<String> {
        self.enter.clone()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
