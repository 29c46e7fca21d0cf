//! Reads of streams that come at the same time.

use std::future::ready;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;

fn gone(read: u64) -> Result<Found, StoreError> {
    Ok(Found::Gone { host_id: Some(read.to_string()) })
}

/// Which read found this.
fn read_of(found: &Result<Found, StoreError>) -> Option<&str> {
    match found {
        Ok(Found::Gone { host_id }) => host_id.as_deref(),
        _ => None,
    }
}

#[tokio::test]
async fn a_read_that_began_later_serves_all_who_wait() {
    let views = Arc::new(Views::default());
    let (answer, answered) = oneshot::channel::<()>();
    let first = Arc::clone(&views);
    let first = tokio::spawn(async move {
        let read = || async {
            answered.await.expect("it is answered");
            gone(1)
        };
        first.find("s", read).await
    });
    yield_now().await;
    // These came while the first was under way, which may have looked before they came.
    let later = (2..10).map(|number| {
        let views = Arc::clone(&views);
        tokio::spawn(async move { views.find("s", || ready(gone(number))).await })
    });
    let later: Vec<_> = later.collect();
    yield_now().await;
    let other = views.find("t", || ready(gone(77))).await;
    assert_eq!(read_of(&other), Some("77"), "another stream does not wait");
    answer.send(()).expect("it waits");
    assert_eq!(read_of(&first.await.expect("no panic")), Some("1"));
    for later in later {
        assert_eq!(read_of(&later.await.expect("no panic")), Some("2"), "one read for all");
    }
    assert!(views.lock().is_empty(), "nobody asks any more");
}

#[tokio::test]
async fn who_comes_after_a_read_reads_anew() {
    let views = Views::default();
    for number in 1..4 {
        let found = views.find("s", || ready(gone(number))).await;
        assert_eq!(read_of(&found), Some(number.to_string().as_str()));
    }
}

#[tokio::test]
async fn a_read_that_is_given_up_serves_nobody_and_one_that_fails_all_who_wait() {
    let views = Arc::new(Views::default());
    let hanging = Arc::clone(&views);
    let hanging =
        tokio::spawn(async move { hanging.find("s", std::future::pending).await.is_ok() });
    yield_now().await;
    let waiting = [1, 2, 3].map(|number| {
        let views = Arc::clone(&views);
        let broken = StoreError::Unavailable(number.to_string());
        tokio::spawn(async move { views.find("s", || ready(Err(broken))).await })
    });
    yield_now().await;
    hanging.abort();
    for waiting in waiting {
        match waiting.await.expect("no panic") {
            Err(StoreError::Unavailable(number)) => assert_eq!(number, "1"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read_of(&views.find("s", || ready(gone(7))).await), Some("7"), "it is back");
    assert!(views.lock().is_empty(), "nobody asks any more");
}
