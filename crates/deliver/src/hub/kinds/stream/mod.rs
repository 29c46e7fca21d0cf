//! Streams: a subscription to one is a [`Feed`](crate::hub::log_feed::Feed), as one to a table's rows is; a
//! response that follows one stream alone is a [`reader`].

pub(crate) mod reader;
