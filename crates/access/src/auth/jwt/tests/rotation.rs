//! Key sets that change while tokens come in, at a URL or in a file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::issuer::{Issuer, SECRET, jwks};
use super::server::{Answer, Publisher};
use crate::auth::jwt::refresh::RefreshSchedule;
use crate::auth::jwt::source::JWKS_BYTES_MAX;
use crate::auth::jwt::{Refusal, Verifier};
use crate::options::{JwksSource, JwtOptions};
use tidewire_wire::clock::now_ms;

const NEVER: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_millis(5);
/// Long enough for whatever ends by itself.
const PATIENT: Duration = Duration::from_secs(60);

/// Read at the beginning, and whenever someone asks.
const ON_DEMAND: RefreshSchedule =
    RefreshSchedule { refresh: NEVER, retry: NEVER, cooldown: Duration::ZERO, wait: PATIENT };
/// Read at the beginning, and never again.
const ONCE: RefreshSchedule =
    RefreshSchedule { refresh: NEVER, retry: NEVER, cooldown: NEVER, wait: PATIENT };
/// Read all the time, and never when someone asks.
const BY_ITSELF: RefreshSchedule =
    RefreshSchedule { refresh: OFTEN, retry: OFTEN, cooldown: NEVER, wait: PATIENT };

/// Claims that are accepted today.
fn claims() -> Value {
    json!({"sub": "ada", "exp": now_ms() / 1000 + 600})
}

/// Says as whom a token is accepted.
async fn user(verifier: &Verifier, issuer: &Issuer) -> Result<String, Refusal> {
    verifier.verify(&issuer.token(&claims())).await.map(|claims| claims.user)
}

fn ada() -> Result<String, Refusal> {
    Ok("ada".to_owned())
}

fn verifier(jwks: JwksSource, pace: RefreshSchedule) -> Arc<Verifier> {
    let options =
        JwtOptions { jwks: Some(jwks), secret: Some(SECRET.to_owned()), ..JwtOptions::default() };
    Arc::new(Verifier::with_pace(&options, Some(pace)).expect("a verifier"))
}

fn at(publisher: &Publisher, pace: RefreshSchedule) -> Arc<Verifier> {
    verifier(JwksSource::Url(publisher.url.clone()), pace)
}

/// Runs the background task for as long as it is held.
fn kept(verifier: &Arc<Verifier>) -> AbortOnDropHandle<()> {
    let verifier = verifier.clone();
    let task = async move { verifier.keep(CancellationToken::new()).await };
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// Runs the background task beside something, until that ends. The first read has begun by then.
async fn while_kept<T>(verifier: &Verifier, beside: impl Future<Output = T>) -> T {
    let stop = CancellationToken::new();
    let stopping = async {
        let output = beside.await;
        stop.cancel();
        output
    };
    tokio::join!(biased; verifier.keep(stop.clone()), stopping).1
}

/// Waits for so many more reads to end. The first of two may have begun before.
async fn reads(verifier: &Verifier, count: u64) {
    let mut progress = verifier.keeper.as_ref().expect("a keeper").progress.subscribe();
    let ended = progress.borrow_and_update().ended;
    progress.wait_for(|now| now.ended >= ended + count).await.expect("the keeper is there");
}

#[tokio::test]
async fn a_key_that_comes_is_found_and_one_that_goes_stops_working() {
    let (first, second) = (Issuer::es256("1"), Issuer::eddsa("2"));
    let publisher = Publisher::start(Answer::Keys(jwks([first.jwk()]))).await;
    let verifier = at(&publisher, ON_DEMAND);
    let _kept = kept(&verifier);
    assert_eq!(user(&verifier, &first).await, ada());
    publisher.answer(Answer::Keys(jwks([second.jwk()])));
    // Nobody has asked for another key.
    assert_eq!(user(&verifier, &first).await, ada());
    assert_eq!(user(&verifier, &second).await, ada());
    assert_eq!(user(&verifier, &first).await, Err(Refusal::UnknownKey));
}

#[tokio::test]
async fn keys_are_refreshed_without_being_asked_for() {
    let (first, second) = (Issuer::es256("1"), Issuer::es256("2"));
    let publisher = Publisher::start(Answer::Keys(jwks([first.jwk()]))).await;
    let verifier = at(&publisher, BY_ITSELF);
    let _kept = kept(&verifier);
    assert_eq!(user(&verifier, &first).await, ada());
    publisher.answer(Answer::Keys(jwks([second.jwk()])));
    reads(&verifier, 2).await;
    assert_eq!(user(&verifier, &first).await, Err(Refusal::UnknownKey));
    assert_eq!(user(&verifier, &second).await, ada());
}

#[tokio::test]
async fn a_flood_of_unknown_keys_is_one_request() {
    let (known, unknown) = (Issuer::es256("1"), Issuer::es256("2"));
    let publisher = Publisher::start(Answer::Keys(jwks([known.jwk()]))).await;
    let verifier = at(&publisher, ONCE);
    let flood = async {
        let tokens: Vec<String> = (0..200)
            .map(|i| unknown.token_of(&json!({"alg": "ES256", "kid": format!("k{i}")}), &claims()))
            .collect();
        let refused = join_all(tokens.iter().map(|token| verifier.verify(token))).await;
        assert!(refused.iter().all(|answer| *answer == Err(Refusal::UnknownKey)));
        // Those who come after it do not wait at all.
        assert_eq!(user(&verifier, &unknown).await, Err(Refusal::UnknownKey));
        assert_eq!(user(&verifier, &known).await, ada());
    };
    while_kept(&verifier, flood).await;
    assert_eq!(publisher.requests(), 1);
}

#[tokio::test]
async fn those_who_come_while_keys_are_read_wait_for_them_together() {
    let issuer = Issuer::rs256();
    let publisher = Publisher::start(Answer::Keys(jwks([issuer.jwk()]))).await;
    let verifier = at(&publisher, ONCE);
    let asking = join_all((0..50).map(|_| user(&verifier, &issuer)));
    let answers = while_kept(&verifier, asking).await;
    assert!(answers.iter().all(|answer| *answer == ada()), "{answers:?}");
    assert_eq!(publisher.requests(), 1);
}

#[tokio::test]
async fn someone_who_goes_away_does_not_break_off_the_read_of_others() {
    let (first, second) = (Issuer::es256("1"), Issuer::es256("2"));
    let publisher = Publisher::start(Answer::Keys(jwks([first.jwk()]))).await;
    let verifier = at(&publisher, ON_DEMAND);
    let _kept = kept(&verifier);
    assert_eq!(user(&verifier, &first).await, ada());
    publisher.answer(Answer::Keys(jwks([second.jwk()])));
    {
        // Polled once, it has asked; then it is dropped.
        let mut leaving = std::pin::pin!(user(&verifier, &second));
        assert!(futures_util::poll!(leaving.as_mut()).is_pending());
    }
    reads(&verifier, 1).await;
    assert_eq!(user(&verifier, &second).await, ada());
    assert_eq!(publisher.requests(), 2);
}

#[tokio::test]
async fn a_failed_refresh_keeps_the_keys() {
    let (known, unknown) = (Issuer::es256("1"), Issuer::es256("2"));
    let publisher = Publisher::start(Answer::Keys(jwks([known.jwk()]))).await;
    let verifier = at(&publisher, ON_DEMAND);
    let _kept = kept(&verifier);
    assert_eq!(user(&verifier, &known).await, ada());
    let good = jwks([unknown.jwk()]);
    let large = format!("{good}{}", " ".repeat(JWKS_BYTES_MAX));
    let many = jwks((0..101).map(|i| Issuer::eddsa(&i.to_string()).jwk()).chain([unknown.jwk()]));
    for answer in [
        Answer::Status(StatusCode::INTERNAL_SERVER_ERROR, good.clone()),
        Answer::Status(StatusCode::NOT_FOUND, good.clone()),
        Answer::Keys(String::new()),
        Answer::Keys(good[..good.len() - 1].to_owned()),
        Answer::Keys(large),
        Answer::Keys(many),
        Answer::Redirect(good.clone()),
    ] {
        let before = publisher.requests();
        publisher.answer(answer.clone());
        assert_eq!(user(&verifier, &unknown).await, Err(Refusal::UnknownKey), "{answer:?}");
        assert_eq!(user(&verifier, &known).await, ada(), "{answer:?}");
        // A redirect that was followed would be a second one.
        assert_eq!(publisher.requests(), before + 1, "{answer:?}");
    }
    publisher.answer(Answer::Keys(good));
    assert_eq!(user(&verifier, &unknown).await, ada());
}

#[tokio::test]
async fn keys_that_cannot_be_loaded_yet_are_unavailable() {
    let issuer = Issuer::eddsa("d");
    let publisher = Publisher::start(Answer::Status(StatusCode::BAD_GATEWAY, String::new())).await;
    let verifier = at(&publisher, ON_DEMAND);
    let _kept = kept(&verifier);
    assert_eq!(user(&verifier, &issuer).await, Err(Refusal::KeysUnavailable));
    // The secret needs no key set.
    assert_eq!(user(&verifier, &Issuer::hs256(SECRET.as_bytes())).await, ada());
    publisher.answer(Answer::Keys(jwks([issuer.jwk()])));
    assert_eq!(user(&verifier, &issuer).await, ada());
}

#[tokio::test]
async fn nobody_waits_longer_than_they_should() {
    let issuer = Issuer::eddsa("d");
    let publisher = Publisher::start(Answer::Never).await;
    let verifier = at(&publisher, RefreshSchedule { wait: OFTEN, ..ONCE });
    // Neither for a server that does not answer, nor for a task that does not run.
    assert_eq!(user(&verifier, &issuer).await, Err(Refusal::KeysUnavailable));
    let _kept = kept(&verifier);
    assert_eq!(user(&verifier, &issuer).await, Err(Refusal::KeysUnavailable));
}

#[tokio::test]
async fn the_task_ends_when_it_is_told_to() {
    let publisher = Publisher::start(Answer::Never).await;
    let stop = CancellationToken::new();
    stop.cancel();
    at(&publisher, ONCE).keep(stop.clone()).await;
    let options = JwtOptions { secret: Some(SECRET.to_owned()), ..JwtOptions::default() };
    Verifier::new(&options).expect("a verifier").keep(stop).await;
}

/// A folder with a key set.
fn folder(text: &str) -> (TempDir, JwksSource) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    write(&path, text);
    (folder, JwksSource::File(path))
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

#[tokio::test]
async fn a_file_that_changes_is_read_again() {
    let (first, second) = (Issuer::rs256(), Issuer::eddsa("2"));
    let (folder, source) = folder(&jwks([first.jwk()]));
    let path = folder.path().join("jwks.json");
    let verifier = verifier(source, BY_ITSELF);
    let _kept = kept(&verifier);
    assert_eq!(user(&verifier, &first).await, ada());

    for broken in ["", "{\"keys\": [", "not JSON"] {
        write(&path, broken);
        reads(&verifier, 2).await;
        assert_eq!(user(&verifier, &first).await, ada(), "{broken}");
    }
    std::fs::remove_file(&path).expect("removed");
    reads(&verifier, 2).await;
    assert_eq!(user(&verifier, &first).await, ada());

    write(&path, &jwks([second.jwk()]));
    reads(&verifier, 2).await;
    assert_eq!(user(&verifier, &second).await, ada());
    assert_eq!(user(&verifier, &first).await, Err(Refusal::UnknownKey));

    write(&path, &jwks([]));
    reads(&verifier, 2).await;
    assert_eq!(user(&verifier, &second).await, Err(Refusal::UnknownKey));
}

#[tokio::test]
async fn a_file_that_comes_later_is_found() {
    let issuer = Issuer::es256("e");
    let (folder, source) = folder("");
    let path = folder.path().join("jwks.json");
    std::fs::remove_file(&path).expect("removed");
    let verifier = verifier(source, BY_ITSELF);
    let _kept = kept(&verifier);
    reads(&verifier, 1).await;
    assert_eq!(user(&verifier, &issuer).await, Err(Refusal::KeysUnavailable));
    write(&path, &jwks([issuer.jwk()]));
    reads(&verifier, 2).await;
    assert_eq!(user(&verifier, &issuer).await, ada());
}

#[test]
fn a_key_set_of_an_unsafe_url_is_refused_at_the_start() {
    let jwks = Some(JwksSource::Url("http://issuer.example.com/jwks.json".to_owned()));
    let options = JwtOptions { jwks, ..JwtOptions::default() };
    let refused = Verifier::new(&options).expect_err("refused");
    assert!(refused.contains("https"), "{refused}");
}

#[test]
fn debugging_a_verifier_does_not_show_the_secret() {
    let options = JwtOptions { secret: Some(SECRET.to_owned()), ..JwtOptions::default() };
    let shown = format!("{:?}", Verifier::new(&options).expect("a verifier"));
    assert!(!shown.contains(SECRET), "{shown}");
}
