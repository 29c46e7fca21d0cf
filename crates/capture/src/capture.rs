//! A node's part in capture: started with the server, stopped before the store is closed.

use tidewire_store_postgres::captured::CaptureLink;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use crate::election;
use crate::options::CaptureOptions;

/// A node's part in capture. Stops when it is dropped; [`Capture::stop`] waits for that.
#[derive(Debug)]
pub struct Capture {
    task: JoinHandle<()>,
    stop: DropGuard,
}

/// Takes part from now on: stands for election, and works when elected.
pub fn start(options: CaptureOptions, link: CaptureLink) -> Capture {
    let stop = link.closing().child_token();
    let tasks = link.tasks().clone();
    let task = tasks.spawn(election::run(options, link, stop.clone()));
    Capture { task, stop: stop.drop_guard() }
}

impl Capture {
    /// Finishes the commit in hand, lets another node take over, and returns.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "capture stopped with an error");
        }
    }
}
