//! Clients that append without a pause, through whatever happens to the server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Method;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::account::{Account, Producing};
use crate::complaint::{Complaint, none_is_hopeless};
use crate::http::{Answer, Http};
use crate::transcript::Transcript;
use crate::wait::{eventually, within_patience};

/// Before a producer tries again. Shorter than a server asks for: it must stand that.
const PAUSE: Duration = Duration::from_millis(25);

/// A producer to be.
#[derive(Debug, Clone)]
pub struct Plan {
    stream: &'static str,
    by: &'static str,
    messages_per_append: u64,
    idempotent: bool,
}

impl Plan {
    /// Sends each append once, whatever comes of it.
    pub fn plain(by: &'static str, stream: &'static str) -> Plan {
        Plan { stream, by, messages_per_append: 1, idempotent: false }
    }

    /// Stamps each append and repeats it until it is acknowledged.
    pub fn idempotent(by: &'static str, stream: &'static str) -> Plan {
        Plan { idempotent: true, ..Plan::plain(by, stream) }
    }

    /// Puts several messages into each append.
    #[must_use]
    pub fn in_batches(self) -> Plan {
        Plan { messages_per_append: 3, ..self }
    }
}

/// Producers at work. Cut off when dropped.
#[derive(Debug)]
pub struct Producers {
    books: Vec<AccountedStream>,
    acknowledged: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// An account, and the stream it is about.
#[derive(Debug, Clone)]
struct AccountedStream {
    stream: &'static str,
    account: Arc<Mutex<Account>>,
}

impl AccountedStream {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Producers {
    /// Sets them to work. Their streams must be there.
    pub fn start(http: &Http, plans: impl IntoIterator<Item = Plan>) -> Producers {
        Producers::spread(std::slice::from_ref(http), plans)
    }

    /// Sets them to work on several nodes, each at another. Whoever gets no success there goes on
    /// to the next node.
    pub fn spread(nodes: &[Http], plans: impl IntoIterator<Item = Plan>) -> Producers {
        let (stop, stopped) = watch::channel(false);
        let mut producers = Producers {
            books: Vec::new(),
            acknowledged: Arc::default(),
            stop,
            tasks: JoinSet::new(),
        };
        for (first, plan) in plans.into_iter().enumerate() {
            let account = Account::new(plan.by, plan.messages_per_append, plan.idempotent);
            let book =
                AccountedStream { stream: plan.stream, account: Arc::new(Mutex::new(account)) };
            producers.books.push(book.clone());
            let acknowledged = Arc::clone(&producers.acknowledged);
            let (nodes, stopped) = (nodes.to_vec(), stopped.clone());
            producers.tasks.spawn(async move {
                let mut nodes = nodes.iter().cycle().skip(first);
                produce(&mut nodes, &plan, &book, &acknowledged, &stopped).await;
            });
        }
        producers
    }

    /// Waits until so many further appends have been acknowledged.
    pub async fn progress(&self, appends: u64) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + appends;
        eventually("further appends are acknowledged", async || {
            none_is_hopeless(&self.complaints());
            (self.acknowledged.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Lets every producer finish the append it is at. Those that repeat need a server for that.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.expect("a producer that does not panic");
            }
        };
        within_patience("the last append of every producer", all).await;
    }

    /// Reads on, and checks that the stream keeps what its producers were promised by then.
    pub async fn check(&self, http: &Http, transcript: &mut Transcript) {
        let at_work = !self.tasks.is_empty();
        let producing = if at_work { Producing::GoesOn } else { Producing::IsOver };
        // Taken before the stream is read: what is acknowledged later need not be in it.
        let accounts: Vec<Account> = self
            .books
            .iter()
            .filter(|book| book.stream == transcript.stream())
            .map(|book| book.account().clone())
            .collect();
        transcript.read_on(http).await;
        for account in accounts {
            if let Err(what) = account.compare(transcript.events(), producing) {
                panic!("in {}: {what}", transcript.stream());
            }
        }
    }

    /// All that the producers were told besides success.
    pub fn complaints(&self) -> Vec<Complaint> {
        let complaints = |book: &AccountedStream| book.account().complaints().to_vec();
        self.books.iter().flat_map(complaints).collect()
    }
}

async fn produce(
    nodes: &mut impl Iterator<Item = &Http>,
    plan: &Plan,
    book: &AccountedStream,
    acknowledged: &AtomicU64,
    stopped: &watch::Receiver<bool>,
) {
    let mut next_node = || nodes.next().expect("at least one node, again and again");
    let mut http = next_node();
    for n in 0.. {
        if *stopped.borrow() {
            return;
        }
        book.account().sending(n);
        loop {
            let Err(complaint) = append(http, plan, book, n).await else {
                acknowledged.fetch_add(1, Ordering::Relaxed);
                break;
            };
            let hopeless = !complaint.temporary();
            book.account().complained(n, complaint);
            if hopeless {
                return;
            }
            http = next_node();
            tokio::time::sleep(PAUSE).await;
            if !plan.idempotent {
                break;
            }
        }
    }
}

async fn append(http: &Http, plan: &Plan, book: &AccountedStream, n: u64) -> Result<(), Complaint> {
    let body = book.account().body(n).to_string();
    let mut request = http
        .request(Method::POST, &format!("/v1/stream/{}", plan.stream))
        .header("content-type", "application/json");
    if plan.idempotent {
        request = request
            .header("producer-id", plan.by)
            .header("producer-epoch", 0)
            .header("producer-seq", n);
    }
    let answer = Answer::try_of(request.body(body)).await;
    let answer = answer.map_err(|error| Complaint::no_answer(&error))?;
    if !matches!(answer.status, 200 | 204) {
        return Err(Complaint::of(&answer));
    }
    book.account().acknowledged(n, answer.next_offset());
    Ok(())
}
