//! Child processes: owned, listened to, and gone when their owner is.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::wait::eventually;

/// How much of an output is looked at for what was printed last.
const LAST_BYTES: usize = 16 << 10;

/// A process that runs, and all it has said. Killed when dropped; if that happens in a test that
/// fails, what the process said is printed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    said: Heard,
    printed: Heard,
    listeners: Vec<JoinHandle<()>>,
}

/// What was heard so far.
type Heard = Arc<Mutex<Vec<u8>>>;

/// A process that has ended by itself.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its whole output, standard output and standard error as they came.
    pub said: String,
    /// Its standard output alone.
    pub printed: String,
}

/// What a process has of the system.
#[derive(Debug, Clone, Copy)]
pub struct Resources {
    /// Memory in use.
    pub resident_bytes: usize,
    /// Files and sockets.
    pub open_files: usize,
}

impl Process {
    /// Starts a command and listens to both of its outputs.
    pub fn spawn(mut command: Command) -> Process {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot run {name}: {error}"));
        let (said, printed) = (Heard::default(), Heard::default());
        let both = vec![Arc::clone(&said), Arc::clone(&printed)];
        let listeners = vec![
            listen(child.stdout.take().expect("a pipe"), both),
            listen(child.stderr.take().expect("a pipe"), vec![Arc::clone(&said)]),
        ];
        Process { name, child, said, printed, listeners }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How much memory it has in use, as the system tells.
    pub fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("the status of a process that runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kib.expect("VmRSS in kB") << 10
    }

    /// What it has of the system.
    pub fn resources(&self) -> Resources {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id()));
        let open_files = files.expect("the files of a process that runs").count();
        Resources { resident_bytes: self.resident_bytes(), open_files }
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        text(&self.said)
    }

    /// What it has printed on its standard output so far.
    pub fn printed(&self) -> String {
        text(&self.printed)
    }

    /// How many bytes that is.
    pub fn printed_bytes(&self) -> usize {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether its standard output has a text among its last bytes. It may be long, and is not copied.
    pub fn has_just_printed(&self, wanted: &str) -> bool {
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &printed[printed.len().saturating_sub(LAST_BYTES)..];
        String::from_utf8_lossy(last).contains(wanted)
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.id().to_string()])
            .status()
            .expect("the command kill runs");
        assert!(sent.success(), "{} is gone already: {}", self.name, self.said());
    }

    /// SIGKILL, and waits until the process is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }

    /// Waits until it ends by itself.
    pub async fn ended(mut self) -> Ended {
        let what = format!("{} ends by itself", self.name);
        let status = eventually(&what, async || self.status()).await;
        for listener in self.listeners.drain(..) {
            let _ = listener.join();
        }
        Ended { code: status.code(), said: self.said(), printed: text(&self.printed) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}---", self.name, self.said());
        }
    }
}

fn text(heard: &Heard) -> String {
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&heard).into_owned()
}

fn listen(mut pipe: impl Read + Send + 'static, into: Vec<Heard>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = pipe.read(&mut piece) {
            for heard in &into {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.extend_from_slice(&piece[..read]);
            }
        }
    })
}

/// Runs a command to its end, off the threads that the story's clients run on. It must succeed.
pub async fn succeed(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
    let output = tokio::task::spawn_blocking(move || child.wait_with_output())
        .await
        .expect("a thread that does not panic")
        .expect("a child of this process");
    assert!(output.status.success(), "{shown} failed: {output:?}");
    output
}
