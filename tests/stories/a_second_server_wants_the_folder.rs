//! A second server is started on the folder of one that runs.

use serde_json::json;
use tidewire_stories::{Launch, Store, Transcript};

/// I2: one process gives offsets. The second is refused and told why; the first does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_is_refused_and_the_first_goes_on() {
    let store = Store::sqlite();
    let first = Launch::dev(&store).start().await;
    first.http().create("mine").await;
    first.http().append("mine", &json!(1)).await;

    let second = Launch::dev(&store).run().await;

    assert_eq!(second.code, Some(1), "the second: {}", second.said);
    let message = second.said.lines().last().unwrap_or_default();
    for hint in ["in use by another tidewire", "--data"] {
        assert!(message.contains(hint), "no {hint:?} in: {}", second.said);
    }
    first.http().append("mine", &json!(2)).await;
    let transcript = Transcript::read(first.http(), "mine").await;
    assert_eq!(transcript.events().len(), 2, "what the first holds");
    first.stop().await;
}
