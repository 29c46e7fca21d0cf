//! Authenticates requests: decides who comes in.
//!
//! Every route belongs to one of a few kinds ([`Entry`]), and says what it does
//! ([`Act`](tidewire_access::auth::Act)); one that leaves either out does not compile. Here a request's
//! credential is found and believed or not; what it allows is asked in `auth::permit`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{Method, StatusCode};

use crate::bearer::{bearer, cookie, cookie_of};
use crate::node::Node;
use crate::origin::{self, RequestOrigin};
use crate::query_string;
use tidewire_access::auth::credentials::Authenticated;
use tidewire_access::auth::{Identity, audit, unauthorized};
use tidewire_access::budget::Account;
use tidewire_access::options::Access;
use tidewire_access::problem::Problem;
use tidewire_wire::peer::Peer;

/// What a route asks of those who use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nothing: it tells only what anyone may know.
    Public,
    /// The server's own authentication.
    Keyed,
    /// A token that the route checks by itself, such as a webhook's callback token.
    OwnToken,
    /// The server's own authentication, which may come later: in a WebSocket's first message, or in
    /// the body. The route lets nobody in without it.
    Later,
}

/// What the door found out.
#[derive(Debug)]
pub(crate) enum Admission {
    Known(Identity),
    /// Only where it may come later: nobody yet, and what to say if that does not change.
    Stranger(Problem),
}

impl Admission {
    /// Whose share of the node's budget the request takes from.
    pub(crate) fn account<'a>(&'a self, node: &'a Node) -> &'a Arc<Account> {
        match self {
            Admission::Known(identity) => identity.account(),
            Admission::Stranger(_) => node.access.budget.strangers(),
        }
    }

    /// Who it is, if that is known.
    pub(crate) fn identity(self) -> Result<Identity, Problem> {
        match self {
            Admission::Known(identity) => Ok(identity),
            Admission::Stranger(problem) => Err(problem),
        }
    }
}

/// A request at the door, before anyone has looked its credential up.
#[derive(Debug)]
pub(crate) enum CredentialLookup<'a> {
    /// There is nothing to look up.
    Settled(Admission),
    /// This was presented, from this address.
    Pending(CredentialSource<'a>, Option<IpAddr>),
}

/// Where a request's credential was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CredentialSource<'a> {
    Bearer(&'a str),
    Ticket(String),
    Cookie(&'a str),
}

/// Finds a request's credential, and turns away those that no credential would help.
pub(crate) fn lookup<'a>(
    node: &Node,
    entry: Entry,
    request: &'a Request,
    origin_of_request: &RequestOrigin,
) -> Result<CredentialLookup<'a>, Problem> {
    let known =
        |identity: &Identity| Ok(CredentialLookup::Settled(Admission::Known(identity.clone())));
    check_query(node, request)?;
    if !origin_of_request.origin_allowed {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "origin_not_allowed",
            "pages of this origin may not use the server",
            "add the origin, with its scheme, to allowed_origins in the server's configuration; for the \
             server's own pages behind a proxy that speaks TLS set public_url, or name the proxy in \
             trusted_proxies",
        )
        .with_note(origin_of_request.whence()));
    }
    if let Access::OpenOnLoopback = node.options.access {
        origin::check_host(request)?;
        return known(&node.access.anyone);
    }
    if matches!(entry, Entry::Public | Entry::OwnToken) {
        return known(&node.access.stranger);
    }
    let address = address(request);
    node.access.rates.address(address)?;
    match (presented(node, request, origin_of_request), entry) {
        (Some(source), _) => Ok(CredentialLookup::Pending(source, address)),
        (None, Entry::Later) => {
            Ok(CredentialLookup::Settled(Admission::Stranger(unauthorized("there is no token"))))
        }
        (None, _) => Err(unauthorized("the request has no bearer token")),
    }
}

fn check_query(node: &Node, request: &Request) -> Result<(), Problem> {
    let query_bytes = request.uri().query().map_or(0, str::len);
    let query_bytes_max = node.options.limits.query_bytes_max;
    if query_bytes <= query_bytes_max {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::URI_TOO_LONG,
        "query_too_long",
        format!(
            "the query string has {query_bytes} bytes; limits.query_bytes_max is {query_bytes_max}"
        ),
        "send a shorter one",
    ))
}

/// The credential of a request: in a header; in a cookie, where the page that sent it is one that
/// may; or a ticket in the URL, of those who can set neither.
fn presented<'a>(
    node: &Node,
    request: &'a Request,
    origin_of_request: &RequestOrigin,
) -> Option<CredentialSource<'a>> {
    if let Some(token) = bearer(request.headers()) {
        return Some(CredentialSource::Bearer(token));
    }
    if *request.method() == Method::GET {
        let query = request.uri().query().unwrap_or_default();
        if let Some(ticket) = query_string::first(query, "ticket") {
            return Some(CredentialSource::Ticket(ticket.into_owned()));
        }
    }
    let token = cookie(request.headers(), &node.options.auth.cookie)?;
    origin_of_request.meant_its_cookie(request).then_some(CredentialSource::Cookie(token))
}

/// The address that a request comes from.
pub(crate) fn address(request: &Request) -> Option<IpAddr> {
    Peer::address(request.extensions())
}

impl CredentialLookup<'_> {
    /// Decides who comes in.
    pub(crate) async fn admit(self, node: &Node) -> Result<Admission, Problem> {
        match self {
            CredentialLookup::Settled(admission) => Ok(admission),
            CredentialLookup::Pending(source, address) => {
                node.recognise(source, address).await.map(Admission::Known)
            }
        }
    }
}

impl Node {
    /// Who presents this, having counted how often they failed before.
    async fn recognise(
        &self,
        presented: CredentialSource<'_>,
        address: Option<IpAddr>,
    ) -> Result<Identity, Problem> {
        match presented {
            CredentialSource::Bearer(token) => self.authenticate(token, address).await,
            CredentialSource::Cookie(token) => {
                let identity = self.authenticate(token, address).await;
                // A page cannot take such a cookie away, and would be refused for good.
                identity.map_err(|problem| match problem.is_temporary() {
                    true => problem,
                    false => problem
                        .with_header("set-cookie", cookie_of(&self.options.auth, "", Some(0))),
                })
            }
            CredentialSource::Ticket(ticket) => {
                self.access.rates.may_fail(address)?;
                let redeemed = tidewire_access::auth::ticket::redeem(&self.access, &ticket).await;
                self.settle(redeemed, address)
            }
        }
    }

    /// Who presents this token.
    pub(crate) async fn authenticate(
        &self,
        token: &str,
        address: Option<IpAddr>,
    ) -> Result<Identity, Problem> {
        if let Access::OpenOnLoopback = self.options.access {
            return Ok(self.access.anyone.clone());
        }
        self.access.rates.may_fail(address)?;
        let found = self.access.credentials.authenticate(token).await;
        self.settle(found, address)
    }

    /// Counts a failure, or a use.
    fn settle(
        &self,
        found: Result<Authenticated, Problem>,
        address: Option<IpAddr>,
    ) -> Result<Identity, Problem> {
        match found {
            Ok(Authenticated { identity, first }) => {
                if let Some(kind) = first {
                    audit::came_in(&self.access, &identity, kind);
                }
                self.access.rates.identity(&identity)?;
                Ok(identity)
            }
            Err(problem) => {
                if !problem.is_temporary() {
                    self.access.rates.failed(address);
                }
                Err(problem)
            }
        }
    }
}
