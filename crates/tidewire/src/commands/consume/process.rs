//! One run of a command: writes its input, reads its output, and kills all that it started if it takes too long.
//!
//! The command leads a process group of its own. So Ctrl-C at a terminal reaches only `tidewire`, and the current
//! batch is finished. When its time is over, or when it is dropped, the whole group is killed; processes that it
//! leaves behind when it ends by itself go on.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::future::{Either, join, select};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// How much of what it says is kept: the end, where programs say what they died of.
const ERROR_BYTES_MAX: usize = 4 << 10;
/// Between the request to end and the end.
const GRACE: Duration = Duration::from_secs(5);
/// How long its words are waited for when it is gone: what it started may hold on to the pipe for ever.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How it ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// We ended it.
    pub(super) timed_out: bool,
    /// The end of what it wrote to its standard error.
    pub(super) errors: String,
}

/// Kills the group of a process that nobody has waited for.
struct Group {
    leader: Option<Pid>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // It may be gone by itself, which is what is wanted.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Runs it with this input. An error: it could not be started, or is out of our hands.
pub(super) async fn run(mut command: Command, input: Vec<u8>, limit: Duration) -> io::Result<End> {
    command.stdin(Stdio::piped()).stdout(Stdio::inherit()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group { leader };
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let mut errors = Tail::default();
    let ended = {
        let waiting = std::pin::pin!(in_time(&mut child, &group, limit));
        // Whoever does not want the events closes its end, and says by the exit code what that means.
        let talking = std::pin::pin!(join(feed(stdin, &input), errors.listen(stderr)));
        match select(waiting, talking).await {
            Either::Left((ended, talking)) => {
                let _ = timeout(LAST_WORDS, talking).await;
                ended
            }
            Either::Right((_, waiting)) => waiting.await,
        }
    };
    // It was waited for, so its number may soon be another's.
    group.leader = None;
    let (status, timed_out) = ended?;
    Ok(End { code: status.code(), signal: status.signal(), timed_out, errors: errors.text() })
}

/// Waits for it, and ends it when its time is over. Says whether that was needed.
async fn in_time(
    child: &mut Child,
    group: &Group,
    limit: Duration,
) -> io::Result<(ExitStatus, bool)> {
    if let Ok(status) = timeout(limit, child.wait()).await {
        return Ok((status?, false));
    }
    group.signal(Signal::TERM);
    let status = timeout(GRACE, child.wait()).await;
    // What it started may be deaf, even if it is not.
    group.signal(Signal::KILL);
    match status {
        Ok(status) => Ok((status?, true)),
        Err(_) => Ok((child.wait().await?, true)),
    }
}

/// Writes all of it, unless it is not wanted.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
    }
}

/// The end of what was said.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Keeps the end of it, and passes all of it on to our own standard error.
    async fn listen(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut piece = [0; 4096];
        let mut out = tokio::io::stderr();
        while let Ok(read @ 1..) = pipe.read(&mut piece).await {
            self.keep(&piece[..read]);
            let _ = out.write_all(&piece[..read]).await;
            let _ = out.flush().await;
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let excess = self.bytes.len().saturating_sub(ERROR_BYTES_MAX);
        self.bytes.drain(..excess);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn sh(script: &str, input: &[u8], limit: Duration) -> End {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, input.to_vec(), limit).await.expect("a shell")
    }

    #[tokio::test]
    async fn one_that_does_not_read_is_no_error() {
        let end = sh("exec 0<&-; exit 0", &[b'x'; 1 << 20], LONG).await;
        assert_eq!((end.code, end.timed_out), (Some(0), false));
    }

    #[tokio::test]
    async fn only_the_end_of_what_it_says_is_kept() {
        let end = sh("head -c 3000000 /dev/zero | tr '\\0' x >&2; printf 'the end' >&2", b"", LONG);
        let errors = end.await.errors;
        assert_eq!(errors.len(), ERROR_BYTES_MAX);
        assert!(errors.ends_with("xthe end"), "{}", &errors[errors.len() - 20..]);
    }

    #[tokio::test]
    async fn its_group_is_ended_when_its_time_is_over() {
        let end = sh("sleep 600 & sleep 600", b"", Duration::from_millis(50)).await;
        assert!(end.timed_out);
        assert_eq!((end.code, end.signal), (None, Some(15)));
    }

    #[tokio::test]
    async fn what_it_leaves_behind_is_not_waited_for() {
        let end = sh("sleep 600 & echo $! >&2; exit 3", b"", LONG).await;
        assert_eq!((end.code, end.timed_out), (Some(3), false));
        let left = end.errors.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
        rustix::process::kill_process(left, Signal::KILL).expect("it goes on");
    }
}
