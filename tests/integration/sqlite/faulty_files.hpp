// A file system for SQLite whose n-th write fails: the default one with a counter in front.
#pragma once

namespace posthorn::test::faulty_files {

/// Makes it the default of all connections opened from now on.
void install();

enum class lasting {
    once,      ///< the call fails, later ones succeed
    until_off, ///< this call and all later ones fail, like a full disk
};

/// From now on counts writes, truncations and syncs, and fails the `number`-th (from 1) with
/// `code`. A code of `SQLITE_FULL` spares syncs, which never report a full disk here.
void fail(int number, int code, lasting how);

/// Lets everything succeed again. Returns: whether any call has failed.
bool off();

} // namespace posthorn::test::faulty_files
