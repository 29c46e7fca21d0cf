//! What administrators do over HTTP, and what everyone does with their own credential.
//!
//! - [`keys`]: `/v1/keys`; [`control`]: `/v1/control`, what is said to all nodes
//! - [`connections`]: `/v1/connections`, who is connected
//! - [`watches`]: `/v1/watch`, whose changes are captured; [`capture`]: `/v1/capture`, how
//! - [`doctor`]: `/v1/doctor`, what stands in the way of what
//! - [`credentials`]: `/v1/tickets` and `/v1/cookie`, one's own credential in another form

pub(crate) mod capture;
pub(crate) mod connections;
pub(crate) mod control;
pub(crate) mod credentials;
pub(crate) mod doctor;
pub(crate) mod keys;
pub(crate) mod watches;

use axum::body::Body;
use axum::http::Response;

use tidewire_access::problem::Problem;

type Answer = Result<Response<Body>, Problem>;

fn invalid(detail: String) -> Problem {
    Problem::bad_request(
        "invalid_request",
        detail,
        "see the section on this route of PROTOCOL.md for the request's shape",
    )
}
