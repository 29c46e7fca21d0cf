//! How late answers come, for simulations: a page that is read while other things happen.

use std::fmt;
use std::sync::Arc;

/// Says, for each call of a store, how many times it lets others run before it is made. By default a
/// call is made at once.
#[derive(Clone, Default)]
pub struct Delay(Option<Arc<dyn Fn() -> u32 + Send + Sync>>);

impl Delay {
    /// As a function says, which is asked once a call.
    pub fn new(turns: impl Fn() -> u32 + Send + Sync + 'static) -> Delay {
        Delay(Some(Arc::new(turns)))
    }

    pub(super) async fn wait(&self) {
        for _ in 0..self.0.as_ref().map_or(0, |turns| turns()) {
            tokio::task::yield_now().await;
        }
    }
}

impl fmt::Debug for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Delay(late)" } else { "Delay(at once)" })
    }
}
