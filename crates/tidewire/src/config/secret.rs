//! Values that must not be printed: the admin key, and the password in a database's URL.

use std::fmt;

/// Shorter keys can be guessed.
const ADMIN_KEY_CHARACTERS_MIN: usize = 16;

/// What stands in a password's place.
const HIDDEN: &str = "***";

/// What clients of `tidewire serve` must present. Its debug form hides it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AdminKey(String);

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminKey(hidden)")
    }
}

/// Why there is no admin key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAdminKey {
    #[error(
        "serve asks every client for a key, and none is set. Make one and start again:\n  \
         export TIDEWIRE_ADMIN_KEY=$(openssl rand -hex 32)"
    )]
    Missing,
    #[error(
        "TIDEWIRE_ADMIN_KEY is too short to be safe: {0} characters, and at least \
         {ADMIN_KEY_CHARACTERS_MIN} are needed. Make a good one:\n  \
         export TIDEWIRE_ADMIN_KEY=$(openssl rand -hex 32)"
    )]
    Short(usize),
    #[error(
        "TIDEWIRE_ADMIN_KEY has spaces or characters that no HTTP header can carry. Make a good \
         one:\n  export TIDEWIRE_ADMIN_KEY=$(openssl rand -hex 32)"
    )]
    Unsendable,
}

impl AdminKey {
    pub(crate) fn check(given: Option<&str>) -> Result<AdminKey, NoAdminKey> {
        let key = given.filter(|key| !key.is_empty()).ok_or(NoAdminKey::Missing)?;
        let characters = key.chars().count();
        if characters < ADMIN_KEY_CHARACTERS_MIN {
            return Err(NoAdminKey::Short(characters));
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NoAdminKey::Unsendable);
        }
        Ok(AdminKey(key.to_owned()))
    }

    /// The key itself, for the server that compares it.
    pub(crate) fn reveal(self) -> String {
        self.0
    }
}

/// A database's URL without its password, wherever in it the password stands.
pub(crate) fn shown_url(url: &str) -> String {
    if url.is_empty() {
        return String::new();
    }
    // What has no scheme is some other text, and nobody knows where the secret in it begins.
    let Some((scheme, rest)) = url.split_once("://") else {
        return HIDDEN.to_owned();
    };
    // The last @ ends the password, because a password may hold any other sign, even a ?.
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("password") => {
            format!("{name}={HIDDEN}")
        }
        _ => pair.to_owned(),
    };
    match rest.split_once('?') {
        Some((address, query)) => {
            let query: Vec<String> = query.split('&').map(hide).collect();
            format!("{scheme}://{address}?{}", query.join("&"))
        }
        None => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_hidden_wherever_it_stands() {
        for (url, shown) in [
            ("postgres://u:p@h:5432/d", "postgres://u:***@h:5432/d"),
            ("postgres://u:p@ss:word@h/d", "postgres://u:***@h/d"),
            ("postgres://u@h/d?sslmode=require", "postgres://u@h/d?sslmode=require"),
            ("postgres://h/d?user=u&password=p", "postgres://h/d?user=u&password=***"),
            ("postgres://h/d?password=p@ss&a=b", "postgres://h/d?password=***&a=b"),
            ("postgres://u:p?@h/d", "postgres://u:***@h/d"),
            ("host=h password=p", "***"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }

    #[test]
    fn a_key_must_be_long_and_fit_a_header() {
        assert_eq!(AdminKey::check(None), Err(NoAdminKey::Missing));
        assert_eq!(AdminKey::check(Some("")), Err(NoAdminKey::Missing));
        assert_eq!(AdminKey::check(Some("0123456789abcde")), Err(NoAdminKey::Short(15)));
        assert_eq!(AdminKey::check(Some("0123456789 abcdef")), Err(NoAdminKey::Unsendable));
        let key = AdminKey::check(Some("0123456789abcdef")).expect("a good key");
        assert_eq!(format!("{key:?}"), "AdminKey(hidden)");
    }
}
