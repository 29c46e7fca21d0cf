//! What a token says, once its signature holds.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::options::JwtOptions;

/// Bytes of a user's or host's name: they are kept with every session and event.
const NAME_BYTES_MAX: usize = 256;
/// The last second of the year 9999. A later time is a mistake, such as milliseconds for seconds.
const TIME_S_MAX: f64 = 253_402_300_799.0;

/// Who presents a token, and what it says of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// `sub`: not empty, at most 256 bytes, no control characters.
    pub user: String,
    /// The host claim, within the same bounds.
    pub host: Option<String>,
    /// The scopes claim, as it is.
    pub scopes: Option<Value>,
    /// When the token stops being accepted, in milliseconds since the Unix epoch: `exp` and the
    /// skew. With `exp` alone, whatever is accepted within the skew would have ended already.
    pub expires_at_ms: i64,
    /// All claims.
    pub all: Map<String, Value>,
}

/// Checks the claims at a time, in seconds since the Unix epoch.
pub(super) fn check(
    all: Map<String, Value>,
    options: &JwtOptions,
    now_s: i64,
) -> Result<Claims, Refusal> {
    let expires_at_ms = check_times(&all, options.skew, now_s)?;
    if let Some(issuer) = &options.issuer {
        let given = all.get("iss").and_then(Value::as_str);
        if given != Some(issuer.as_str()) {
            return Err(Refusal::WrongIssuer);
        }
    }
    if !options.audience.is_empty() && !is_among(all.get("aud"), &options.audience) {
        return Err(Refusal::WrongAudience);
    }
    let user = all.get("sub").and_then(name).ok_or(Refusal::ClaimRefused("sub"))?;
    let host = match all.get(&options.host_claim) {
        Some(host) => Some(name(host).ok_or(Refusal::ClaimRefused("host"))?),
        None => None,
    };
    let scopes = all.get(&options.scopes_claim).cloned();
    Ok(Claims { user, host, scopes, expires_at_ms, all })
}

/// Checks `exp`, `nbf` and `iat`, and says when the token stops being accepted.
fn check_times(all: &Map<String, Value>, skew: Duration, now_s: i64) -> Result<i64, Refusal> {
    let now_ms = now_s.saturating_mul(1000);
    let skew_ms = i64::try_from(skew.as_millis()).unwrap_or(i64::MAX);
    let exp_ms = time_ms(all, "exp")?.ok_or(Refusal::ClaimRefused("exp"))?;
    let expires_at_ms = exp_ms.saturating_add(skew_ms);
    if now_ms >= expires_at_ms {
        return Err(Refusal::Expired);
    }
    let latest_ms = now_ms.saturating_add(skew_ms);
    for claim in ["nbf", "iat"] {
        if time_ms(all, claim)?.is_some_and(|from_ms| from_ms > latest_ms) {
            return Err(Refusal::NotYetValid);
        }
    }
    Ok(expires_at_ms)
}

/// A time claim in milliseconds; the standard allows fractions of seconds.
fn time_ms(all: &Map<String, Value>, claim: &'static str) -> Result<Option<i64>, Refusal> {
    let Some(value) = all.get(claim) else { return Ok(None) };
    match value.as_f64() {
        Some(time_s) if (0.0..=TIME_S_MAX).contains(&time_s) => {
            #[expect(clippy::cast_possible_truncation, reason = "TIME_S_MAX bounds it")]
            let time_ms = (time_s * 1000.0) as i64;
            Ok(Some(time_ms))
        }
        _ => Err(Refusal::ClaimRefused(claim)),
    }
}

/// Whether a string, or one of an array, is among those accepted.
fn is_among(claim: Option<&Value>, accepted: &[String]) -> bool {
    let is_accepted =
        |value: &Value| value.as_str().is_some_and(|value| accepted.iter().any(|a| a == value));
    match claim {
        Some(Value::Array(several)) => several.iter().any(is_accepted),
        Some(one) => is_accepted(one),
        None => false,
    }
}

/// A name of someone, within its bounds.
fn name(value: &Value) -> Option<String> {
    let name = value.as_str()?;
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    (fits && !name.chars().any(char::is_control)).then(|| name.to_owned())
}
