//! How often callers may ask: each identity, each address, and each address that fails to say who
//! it is.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use super::identity::{Identity, Who};
use super::rates::Rates;
use crate::options::Rate;
use crate::options::RateOptions;
use crate::problem::Problem;
use tidewire_wire::peer::holder;

/// Lines about one kind of refusal: a flood of those must not fill the disk. All are counted.
const LINES: Rate = Rate { per_second: 5, burst: 100 };

/// The gates of a node.
#[derive(Debug)]
pub struct RateLimiters {
    identities: Rates<Who>,
    addresses: Rates<IpAddr>,
    failures: Rates<IpAddr>,
    lines: Rates<&'static str>,
}

impl RateLimiters {
    pub(crate) fn new(options: &RateOptions) -> RateLimiters {
        RateLimiters {
            identities: Rates::new(options.identity()),
            addresses: Rates::new(options.address()),
            failures: Rates::new(options.failures()),
            lines: Rates::new(LINES),
        }
    }

    /// Takes over other rates.
    pub(crate) fn set(&self, options: &RateOptions) {
        self.identities.set(options.identity());
        self.addresses.set(options.address());
        self.failures.set(options.failures());
    }

    /// Lets a request of an identity pass, or a message. Those who are nobody in particular are not
    /// counted: that is `dev`.
    pub fn identity(&self, identity: &Identity) -> Result<(), Problem> {
        if *identity.who() == Who::Anyone {
            return Ok(());
        }
        let taken = self.identities.take(identity.who().clone(), Instant::now());
        taken.map_err(|wait| too_many("rates.identity_per_second", wait))
    }

    /// Lets a request from an address pass.
    pub fn address(&self, address: Option<IpAddr>) -> Result<(), Problem> {
        let Some(address) = address else { return Ok(()) };
        let taken = self.addresses.take(holder(address), Instant::now());
        taken.map_err(|wait| too_many("rates.address_per_second", wait))
    }

    /// Refuses an address that has failed too often to try again.
    pub fn may_fail(&self, address: Option<IpAddr>) -> Result<(), Problem> {
        let Some(address) = address else { return Ok(()) };
        let checked = self.failures.check(&holder(address), Instant::now());
        checked.map_err(|wait| too_many("rates.failures_per_second", wait))
    }

    /// Counts a failure of an address.
    pub fn failed(&self, address: Option<IpAddr>) {
        if let Some(address) = address {
            let _ = self.failures.take(holder(address), Instant::now());
        }
    }

    /// Whether another line about this kind of refusal is to be written.
    pub fn may_write(&self, reason: &'static str) -> bool {
        self.lines.take(reason, Instant::now()).is_ok()
    }
}

fn too_many(limit: &'static str, wait: Duration) -> Problem {
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "rate_limited",
        format!("too many requests in a short time; the limit is {limit}"),
        "wait for the time in Retry-After, and put more into each request",
    )
    .retry_after_s(seconds)
    .with_member("limit", limit)
}
