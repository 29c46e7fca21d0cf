//! Sending one webhook.

use std::time::Duration;

use rand::Rng;
use reqwest::{Client, redirect};
use serde_json::json;

use tidewire_store::subscription::{Delivery, Kind, Subscription};

use super::{document, target};
use crate::node::Node;
use tidewire_wire::clock::now_ms;

/// The first retry comes after about this; each further one after twice as long.
const RETRY_BASE_MS: u64 = 1_000;
const RETRY_MAX_MS: u64 = 60_000;
/// Bytes of a receiver's answer that are looked at.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends webhooks. No redirects are followed, since one could lead where the URL could not.
#[derive(Debug, Clone)]
pub(super) struct Sender(Client);

impl Sender {
    pub(super) fn new(node: &Node) -> reqwest::Result<Sender> {
        let allow_loopback = node.options.webhooks.allow_loopback;
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .timeout(node.options.webhooks.timeout)
            .no_proxy()
            .dns_resolver(std::sync::Arc::new(target::PublicResolver { allow_loopback }))
            .user_agent(concat!("tidewire/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Sender(client))
    }

    /// Delivers a wake and says how it went.
    pub(super) async fn send(&self, node: &Node, subscription: &Subscription) -> Delivery {
        match self.attempt(node, subscription).await {
            Ok(true) => {
                node.metrics.webhook("done");
                Delivery::Done
            }
            Ok(false) => {
                node.metrics.webhook("accepted");
                Delivery::Accepted
            }
            Err(reason) => {
                node.metrics.webhook("failed");
                let retry_in_ms = retry_in_ms(subscription.retry_count, &mut rand::rng());
                let id = &subscription.id;
                tracing::warn!(subscription = id, reason, retry_in_ms, "webhook not delivered");
                Delivery::Failed { retry_in_ms }
            }
        }
    }

    /// Returns whether the receiver is done with the wake already.
    async fn attempt(&self, node: &Node, subscription: &Subscription) -> Result<bool, String> {
        let (Kind::Webhook { url }, Some(wake)) = (&subscription.config.kind, &subscription.wake)
        else {
            return Err("there is no webhook to deliver".to_owned());
        };
        let allow_loopback = node.options.webhooks.allow_loopback;
        let url =
            target::check_url(url, allow_loopback).map_err(|rejected| rejected.to_string())?;
        let id = tidewire_hub::encode::path(&subscription.id);
        let body = json!({
            "subscription_id": subscription.id,
            "wake_id": wake.id,
            "generation": subscription.generation,
            "streams": document::links(node, subscription, true),
            "callback_url": format!("{}/v1/stream/__ds/subscriptions/{id}/callback", node.public_url),
            "callback_token": node.signer.token(&subscription.id, subscription.generation),
        })
        .to_string();
        let signature = node.signer.signature(now_ms() / 1000, &body);
        let mut answer = self
            .0
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-signature", signature)
            .body(body)
            .send()
            .await
            .map_err(|error| error.without_url().to_string())?;
        if !answer.status().is_success() {
            return Err(format!("the receiver answered {}", answer.status()));
        }
        let mut text = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            text.extend_from_slice(&chunk);
            if text.len() > ANSWER_BYTES_MAX {
                break;
            }
        }
        let answer: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        Ok(answer["done"] == true)
    }
}

/// Doubles with every failure, within 1 s and 60 s, give or take a fifth.
fn retry_in_ms(failures: u32, random: &mut impl Rng) -> u64 {
    let base_ms = RETRY_BASE_MS.saturating_mul(1 << failures.min(16)).min(RETRY_MAX_MS);
    let jitter_ms = base_ms / 5;
    random.random_range(base_ms - jitter_ms..=base_ms + jitter_ms)
}

/// How long a delivery may take in all: when another node takes the turn.
pub(super) fn attempt_ms(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).saturating_add(RETRY_BASE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn retries_double_up_to_a_minute_with_a_fifth_of_jitter() {
        let mut random = rand::rngs::StdRng::seed_from_u64(7);
        for (failures, expected_ms) in
            [(0, 1_000), (1, 2_000), (5, 32_000), (6, 60_000), (40, 60_000)]
        {
            for _ in 0..100 {
                let wait_ms = retry_in_ms(failures, &mut random);
                assert!(wait_ms.abs_diff(expected_ms) <= expected_ms / 5, "{failures}: {wait_ms}");
            }
        }
    }
}
