//! What to do about an error, in terms of the command line's flags and variables, which the client does not know.

use tidewire_client::{ClientError, ConnectFailure};

/// What to try, if it is known.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    of(error.chain().find_map(|cause| cause.downcast_ref::<ClientError>())?)
}

/// What to try about what went wrong with a server.
pub(super) fn of(error: &ClientError) -> Option<String> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    of_client(error, set("TIDEWIRE_TOKEN"), set("TIDEWIRE_ADMIN_KEY"))
}

fn of_client(error: &ClientError, has_token: bool, has_admin_key: bool) -> Option<String> {
    let text = match (error.unreached(), error) {
        (Some(ConnectFailure::NobodyListens), _) => {
            "start a server (tidewire dev), or name the one that runs by --url or TIDEWIRE_URL"
        }
        (Some(ConnectFailure::NotEncrypted), _) => {
            "write http:// instead of https:// in --url or TIDEWIRE_URL"
        }
        (Some(ConnectFailure::Certificate), error)
            if error.to_string().contains("CaUsedAsEndEntity") =>
        {
            "the server's certificate is an authority's own (CA:TRUE): create it again with -addext \
             basicConstraints=critical,CA:FALSE, and name it by --ca FILE or TIDEWIRE_CA"
        }
        (Some(ConnectFailure::Certificate), _) => {
            "name the authority that issued the server's certificate by --ca FILE or TIDEWIRE_CA, and the server as \
             the certificate does"
        }
        (_, ClientError::Refused { status: 401, .. }) if has_admin_key && !has_token => {
            "TIDEWIRE_ADMIN_KEY is for the server; commands present TIDEWIRE_TOKEN: export \
             TIDEWIRE_TOKEN=$TIDEWIRE_ADMIN_KEY"
        }
        (_, ClientError::Refused { status: 401, .. }) => {
            "give --token or TIDEWIRE_TOKEN an API key of this server, or the admin key: what TIDEWIRE_ADMIN_KEY was \
             when it started"
        }
        (_, ClientError::Refused { status: 400, problem, .. }) if problem.code.is_none() => {
            "if the server speaks TLS, write https:// instead of http:// in --url or TIDEWIRE_URL"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> ClientError {
        ClientError::Refused { status, problem: Box::default(), retry_after: None }
    }

    #[test]
    fn a_key_in_the_wrong_variable_is_noticed() {
        let hint = of_client(&refused(401), false, true).expect("a hint");
        assert!(hint.contains("export TIDEWIRE_TOKEN=$TIDEWIRE_ADMIN_KEY"), "{hint}");
        let hint = of_client(&refused(401), true, true).expect("a hint");
        assert!(hint.contains("an API key of this server"), "{hint}");
        assert_eq!(of_client(&refused(403), true, true), None);
    }
}
