//! Tokens of leases: which batch a worker has, and that it was this server who said so.
//!
//! `{partition}.{generation}.{events}[.{key}.{last}].{mac}`: what is in brackets is of letters that are
//! worked off again: the hash of their key, and the position of the last one. The log's epoch and the
//! group's name are not in it, and are signed: a token of before a restore fits nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use tidewire_store::groups::LeaseRef;
use tidewire_store::{Epoch, Position};

use super::problem;
use crate::access::problem::Problem;
use crate::signer::Signer;

/// What a token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) partition: u32,
    pub(super) generation: u64,
    /// How many events the batch has.
    pub(super) events: usize,
    /// Of letters: whose, and up to which.
    pub(super) letters: Option<([u8; 32], Position)>,
}

impl Token {
    fn text(&self) -> String {
        let Token { partition, generation, events, letters } = self;
        match letters {
            None => format!("{partition}.{generation}.{events}"),
            Some((key, last)) => {
                let key = URL_SAFE_NO_PAD.encode(key);
                format!("{partition}.{generation}.{events}.{key}.{}", last.number())
            }
        }
    }

    fn read(text: &str) -> Option<Token> {
        let mut parts = text.split('.');
        let partition = parts.next()?.parse().ok()?;
        let generation = parts.next()?.parse().ok()?;
        let events = parts.next()?.parse().ok()?;
        let letters = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => None,
            (Some(key), Some(last), None) => {
                let key = URL_SAFE_NO_PAD.decode(key).ok()?.try_into().ok()?;
                Some((key, Position::new(last.parse().ok()?)))
            }
            _ => return None,
        };
        Some(Token { partition, generation, events, letters })
    }

    /// The token that a worker gets.
    pub(super) fn sign(&self, signer: &Signer, epoch: Epoch, group: &str) -> String {
        let text = self.text();
        let tag = signer.lease_tag(&subject(&text, epoch, group));
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    /// Reads the token that a worker sends.
    pub(super) fn verify(
        signer: &Signer,
        epoch: Epoch,
        group: &str,
        token: &str,
    ) -> Result<Token, Problem> {
        let good = || {
            let (text, tag) = token.rsplit_once('.')?;
            let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
            signer.is_lease_tag(&subject(text, epoch, group), &tag).then_some(())?;
            Token::read(text)
        };
        good().ok_or_else(|| match lease_of_before(signer, epoch, group, token) {
            true => problem::lease_lost(),
            false => Problem::bad_request(
                "invalid_lease_token",
                "the token was not given for a batch of this group",
                "send the token of the claim as it came",
            ),
        })
    }

    /// The lease in the store.
    pub(super) fn lease(&self, group: &str) -> LeaseRef {
        LeaseRef { group: group.to_owned(), partition: self.partition, generation: self.generation }
    }
}

/// Whether it is a token of before a restore: its lease is gone with the history that it was of.
fn lease_of_before(signer: &Signer, epoch: Epoch, group: &str, token: &str) -> bool {
    let Some((text, tag)) = token.rsplit_once('.') else { return false };
    let Ok(tag) = URL_SAFE_NO_PAD.decode(tag) else { return false };
    let before = (1..epoch.number()).rev().take(16).filter_map(Epoch::new);
    before.into_iter().any(|epoch| signer.is_lease_tag(&subject(text, epoch, group), &tag))
}

fn subject(text: &str, epoch: Epoch, group: &str) -> String {
    format!("group lease\n{text}\n{}\n{group}", epoch.number())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Bench, changed_text, changes};

    #[test]
    fn a_token_says_what_was_said() {
        let plain = Token { partition: 3, generation: 17, events: 5, letters: None };
        let letters = Some(([7; 32], Position::new(42)));
        for token in [plain, Token { letters, ..plain }] {
            assert_eq!(Token::read(&token.text()), Some(token));
        }
        for text in ["", "1", "1.2", "1.2.x", "1.2.3.4", "1.2.3.AAAA.5", "-1.2.3", "1.2.3.4.5.6"] {
            assert_eq!(Token::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_token_is_good_for_its_group_and_history_only() {
        let bench = Bench::start();
        let signer = &bench.node().signer;
        let [one, two] = [1, 2].map(|number| Epoch::new(number).expect("an epoch"));
        let token = Token { partition: 3, generation: 17, events: 5, letters: None };
        let text = token.sign(signer, one, "g");
        let code = |epoch, group, text: &str| {
            Token::verify(signer, epoch, group, text).map_err(|problem| problem.code())
        };
        assert_eq!(code(one, "g", &text), Ok(token));
        assert_eq!(code(one, "other", &text), Err("invalid_lease_token"));
        assert_eq!(code(two, "g", &text), Err("lease_lost"), "after a restore");
        proptest!(|(changes in changes())| {
            let forged = changed_text(&text, &changes);
            prop_assume!(forged != text);
            prop_assert_eq!(code(one, "g", &forged), Err("invalid_lease_token"));
        });
    }
}
