//! Secrets that a story has come by, and looking for them where they must not be.

use aws_lc_rs::digest::{SHA256, digest};

/// Pieces of a secret that are as long as this would give it away.
const PIECE_CHARS: usize = 16;

/// All that a story knows and nobody else must.
#[derive(Debug, Default)]
pub struct Secrets(Vec<(String, Vec<String>)>);

impl Secrets {
    /// A text, such as a key. It must not be seen whole, nor either half of it if that is still long,
    /// nor the hash by which a store knows it.
    pub fn text(&mut self, name: &str, secret: &str) {
        let hash = digest(&SHA256, secret.as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut forms = vec![secret.to_owned(), hash];
        let (first, second) = secret.split_at(secret.len() / 2);
        let halves = [first, second].into_iter().filter(|half| half.len() >= PIECE_CHARS);
        forms.extend(halves.map(ToOwned::to_owned));
        self.0.push((name.to_owned(), forms));
    }

    /// Bytes, such as a signing key, in the forms that programs write bytes in.
    pub fn bytes(&mut self, name: &str, secret: &[u8]) {
        let list = format!("{secret:?}");
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.push((name.to_owned(), vec![list.trim_matches(['[', ']']).to_owned(), hex]));
    }

    /// Every text, whole, with its name.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let texts = self.0.iter().filter(|(_, forms)| !forms[0].contains(", "));
        texts.map(|(name, forms)| (name.as_str(), forms[0].as_str()))
    }

    /// Checks that none of them is in a text.
    #[track_caller]
    pub fn are_not_in(&self, what: &str, text: &str) {
        for (name, forms) in &self.0 {
            for form in forms {
                let at = text.find(form.as_str());
                let line = at.map(|at| {
                    let from = text[..at].rfind('\n').map_or(0, |end| end + 1);
                    text[from..].lines().next().unwrap_or_default()
                });
                assert!(at.is_none(), "{name} is in {what}: {line:?}");
            }
        }
    }
}
