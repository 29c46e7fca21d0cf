//! SQLite's preupdate hook: every row that a statement is about to change, as it is and as it will be.
//!
//! It sees what triggers, foreign keys and `REPLACE` do, and rows of tables without a rowid. rusqlite
//! wraps it only where bindings are generated at build time, which needs libclang; so it is called
//! by hand here, and this module has unsafe code. What must hold: the hook runs on the
//! thread that runs the statement, only within [`listening`], and values live until it returns.

#![expect(unsafe_code, reason = "SQLite's C functions, which rusqlite does not wrap")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ffi};

use tidewire_store::row::Operation;

/// A row that is about to change. Exists only while the hook runs.
pub(crate) struct ChangingRow<'a> {
    db: *mut ffi::sqlite3,
    /// The table's name, as the schema spells it.
    pub(crate) table: &'a str,
    /// What is about to be done to the row.
    pub(crate) operation: Operation,
    hook: PhantomData<&'a ()>,
}

/// A value that SQLite would not give: its result code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unreadable(pub(crate) c_int);

type Get = unsafe extern "C" fn(*mut ffi::sqlite3, c_int, *mut *mut ffi::sqlite3_value) -> c_int;

impl ChangingRow<'_> {
    /// The value of a column before, by its number in the table. Only for `UPDATE` and `DELETE`.
    pub(crate) fn before(&self, column: usize) -> Result<ValueRef<'_>, Unreadable> {
        self.get(ffi::sqlite3_preupdate_old, column)
    }

    /// The value of a column after, by its number in the table. Only for `INSERT` and `UPDATE`.
    pub(crate) fn after(&self, column: usize) -> Result<ValueRef<'_>, Unreadable> {
        self.get(ffi::sqlite3_preupdate_new, column)
    }

    fn get(&self, get: Get, column: usize) -> Result<ValueRef<'_>, Unreadable> {
        let column = c_int::try_from(column).map_err(|_| Unreadable(ffi::SQLITE_RANGE))?;
        let mut value = std::ptr::null_mut();
        // SAFETY: `db` is the connection whose hook is running, since `self` exists only then. SQLite
        // checks the column's number and whether the operation has such a value.
        let code = unsafe { get(self.db, column, &raw mut value) };
        if code != ffi::SQLITE_OK || value.is_null() {
            return Err(Unreadable(code));
        }
        // SAFETY: SQLite keeps the value until the hook returns, which `self` does not outlive.
        unsafe { value_ref(value) }.ok_or(Unreadable(ffi::SQLITE_NOMEM))
    }
}

/// What a value holds. None if memory ran out while SQLite converted it.
///
/// # Safety
///
/// `value` is valid, and stays as it is for `'v`.
unsafe fn value_ref<'v>(value: *mut ffi::sqlite3_value) -> Option<ValueRef<'v>> {
    // SAFETY: the value is valid. Its length is asked for after its bytes, as SQLite wants it; the
    // bytes are as many, and belong to the value.
    unsafe {
        let bytes = |start: *const u8| {
            let length = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
            match (start.is_null(), length) {
                (_, 0) => Some(&[] as &[u8]),
                (true, _) => None,
                (false, length) => Some(std::slice::from_raw_parts(start, length)),
            }
        };
        Some(match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
            ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
            ffi::SQLITE_TEXT => ValueRef::Text(bytes(ffi::sqlite3_value_text(value))?),
            ffi::SQLITE_BLOB => ValueRef::Blob(bytes(ffi::sqlite3_value_blob(value).cast())?),
            _ => ValueRef::Null,
        })
    }
}

/// That the listener panicked: what it should have noted is not there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panicked;

struct Context<'a> {
    listener: &'a dyn Fn(&ChangingRow<'_>),
    panicked: Cell<bool>,
}

/// Does some work on the connection, and tells `listener` of every row that is touched meanwhile. While
/// there is a listener, a `DELETE` without a condition goes row by row, too. The listener must not
/// use the connection.
pub(crate) fn listening<T>(
    connection: &Connection,
    listener: &dyn Fn(&ChangingRow<'_>),
    work: impl FnOnce() -> T,
) -> Result<T, Panicked> {
    struct Hooked<'a>(&'a Connection);
    impl Drop for Hooked<'_> {
        fn drop(&mut self) {
            // SAFETY: the handle is that of an open connection, and is not kept.
            unsafe {
                ffi::sqlite3_preupdate_hook(self.0.handle(), None, std::ptr::null_mut());
            }
        }
    }
    let context = Context { listener, panicked: Cell::new(false) };
    let pointer = (&raw const context).cast_mut().cast::<c_void>();
    // SAFETY: the handle is that of an open connection. `context` outlives the hook, which `Hooked`
    // takes away at the end of this function, however it ends. The connection is not `Sync`, so
    // nothing else runs on it at the same time.
    let hooked = unsafe {
        ffi::sqlite3_preupdate_hook(connection.handle(), Some(changing), pointer);
        Hooked(connection)
    };
    let done = work();
    drop(hooked);
    if context.panicked.get() { Err(Panicked) } else { Ok(done) }
}

/// What SQLite calls.
unsafe extern "C" fn changing(
    context: *mut c_void,
    db: *mut ffi::sqlite3,
    operation: c_int,
    schema: *const c_char,
    table: *const c_char,
    _rowid_before: ffi::sqlite3_int64,
    _rowid_after: ffi::sqlite3_int64,
) {
    // SAFETY: SQLite hands back the pointer that `listening` gave it, which is valid until it takes
    // the hook away, and names that are valid until this returns.
    let (context, schema, table) =
        unsafe { (&*context.cast::<Context<'_>>(), CStr::from_ptr(schema), CStr::from_ptr(table)) };
    let operation = match operation {
        ffi::SQLITE_INSERT => Operation::Insert,
        ffi::SQLITE_DELETE => Operation::Delete,
        _ => Operation::Update,
    };
    let (Ok("main"), Ok(table)) = (schema.to_str(), table.to_str()) else { return };
    let changing = ChangingRow { db, table, operation, hook: PhantomData };
    // A panic must not unwind through C.
    if catch_unwind(AssertUnwindSafe(|| (context.listener)(&changing))).is_err() {
        context.panicked.set(true);
    }
}
