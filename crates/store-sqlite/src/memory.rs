//! How much memory SQLite takes for one read.
//!
//! What a value may have is a setting of SQLite's; what all values of a statement have together is none, and
//! its limit of the heap is one for the whole process. A few words can make hundreds of values of megabytes.
//! So what SQLite allocates goes through here: while a [`Budget`] is held, what its thread allocates is
//! counted, and what would be too much is refused, as it would be by a machine that has no more. SQLite then
//! gives the statement up. It is looked at the clock on the way as well: within one row SQLite itself does not
//! do so, whatever it copies.
//!
//! What must hold of the unsafe code: the functions are called by SQLite alone, and hand on to those that
//! SQLite had before, unless they refuse.

#![expect(unsafe_code, reason = "SQLite's allocator, which rusqlite does not wrap")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::Instant;

use rusqlite::ffi;

/// Bytes that are allocated between two looks at the clock.
const BYTES_BETWEEN_LOOKS: i64 = 1 << 20;

/// SQLite's own functions; none if it was begun without ours.
static ORIGINAL: OnceLock<Option<OriginalAllocator>> = OnceLock::new();

#[derive(Debug, Clone, Copy)]
struct OriginalAllocator {
    allocate: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    reallocate: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// Why memory was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryRefused {
    TooMuch,
    TimeUp,
}

#[derive(Debug, Clone, Copy)]
struct ThreadUsage {
    bytes_max: i64,
    bytes: i64,
    until_look: i64,
    deadline: Option<Instant>,
    refused: Option<MemoryRefused>,
}

thread_local! {
    static ACCOUNT: Cell<Option<ThreadUsage>> = const { Cell::new(None) };
}

/// While it is held, SQLite gets so much memory on this thread, and until this moment.
#[derive(Debug)]
pub(crate) struct Budget {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize, deadline: Option<Instant>) -> Budget {
        let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        let until_look = BYTES_BETWEEN_LOOKS;
        let account = ThreadUsage { bytes_max, bytes: 0, until_look, deadline, refused: None };
        ACCOUNT.set(Some(account));
        Budget { _thread: PhantomData }
    }

    /// Why memory was refused, if it was.
    pub(crate) fn refused(&self) -> Option<MemoryRefused> {
        ACCOUNT.get().and_then(|account| account.refused)
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        ACCOUNT.set(None);
    }
}

impl ThreadUsage {
    /// Whether so much more may be had.
    fn may_have(&mut self, more: i64, copied: i64) -> bool {
        if self.bytes.saturating_add(more) > self.bytes_max {
            self.refused.get_or_insert(MemoryRefused::TooMuch);
            return false;
        }
        self.until_look -= copied;
        if self.until_look <= 0 {
            self.until_look = BYTES_BETWEEN_LOOKS;
            if self.deadline.is_some_and(|due| Instant::now() >= due) {
                self.refused.get_or_insert(MemoryRefused::TimeUp);
                return false;
            }
        }
        true
    }
}

/// Has SQLite ask here for memory. Only before its first connection: the answer says whether it does.
pub(crate) fn install() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let Some(methods) = methods() else { return false };
        let counting = ffi::sqlite3_mem_methods {
            xMalloc: Some(allocate),
            xFree: Some(free),
            xRealloc: Some(reallocate),
            ..methods
        };
        // SAFETY: SQLite copies the functions, and they are there for as long as the process is.
        let set = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const counting) };
        set == ffi::SQLITE_OK
    })
}

/// What SQLite has, noted before it can be asked for.
fn methods() -> Option<ffi::sqlite3_mem_methods> {
    let mut methods = ffi::sqlite3_mem_methods {
        xMalloc: None,
        xFree: None,
        xRealloc: None,
        xSize: None,
        xRoundup: None,
        xInit: None,
        xShutdown: None,
        pAppData: std::ptr::null_mut(),
    };
    // SAFETY: SQLite fills in what it has, and refuses where it has begun to use it.
    let got = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
    let own = ORIGINAL.get_or_init(|| {
        Some(OriginalAllocator {
            allocate: methods.xMalloc?,
            free: methods.xFree?,
            reallocate: methods.xRealloc?,
            size: methods.xSize?,
        })
    });
    own.filter(|_| got == ffi::SQLITE_OK).map(|_| methods)
}

fn own() -> Option<OriginalAllocator> {
    ORIGINAL.get().copied().flatten()
}

impl OriginalAllocator {
    /// Bytes of something that SQLite has allocated.
    fn size(self, held: *mut c_void) -> i64 {
        if held.is_null() {
            return 0;
        }
        // SAFETY: SQLite gave it to be freed or made larger, or has just made it.
        i64::from(unsafe { (self.size)(held) })
    }
}

unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    let Some(own) = own() else { return std::ptr::null_mut() };
    let Some(mut account) = ACCOUNT.get() else {
        // SAFETY: as SQLite called.
        return unsafe { (own.allocate)(bytes) };
    };
    let wanted = i64::from(bytes);
    if !account.may_have(wanted, wanted) {
        ACCOUNT.set(Some(account));
        return std::ptr::null_mut();
    }
    // SAFETY: as SQLite called.
    let held = unsafe { (own.allocate)(bytes) };
    account.bytes += own.size(held);
    ACCOUNT.set(Some(account));
    held
}

unsafe extern "C" fn free(held: *mut c_void) {
    let Some(own) = own() else { return };
    if let Some(mut account) = ACCOUNT.get() {
        account.bytes -= own.size(held);
        ACCOUNT.set(Some(account));
    }
    // SAFETY: as SQLite called.
    unsafe { (own.free)(held) };
}

unsafe extern "C" fn reallocate(held: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(own) = own() else { return std::ptr::null_mut() };
    let Some(mut account) = ACCOUNT.get() else {
        // SAFETY: as SQLite called.
        return unsafe { (own.reallocate)(held, bytes) };
    };
    let before = own.size(held);
    let more = i64::from(bytes) - before;
    if more > 0 && !account.may_have(more, i64::from(bytes)) {
        ACCOUNT.set(Some(account));
        return std::ptr::null_mut();
    }
    // SAFETY: as SQLite called.
    let moved = unsafe { (own.reallocate)(held, bytes) };
    if !moved.is_null() {
        account.bytes += own.size(moved) - before;
    }
    ACCOUNT.set(Some(account));
    moved
}
