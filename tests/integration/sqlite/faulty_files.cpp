// A thin layer over SQLite's own files. Everything but writing is passed on unchanged.
#include "integration/sqlite/faulty_files.hpp"

#include <sqlite3.h>

#include <cstddef>

namespace posthorn::test::faulty_files {
namespace {

struct plan {
    bool armed = false;
    bool fired = false;
    int countdown = 0;
    int code = SQLITE_OK;
    lasting how = lasting::once;
};
plan current;

enum class call { write, sync };

// SQLITE_OK, or the error that this call is to meet.
int next_result(call kind)
{
    const bool counts = current.armed && (kind == call::write || current.code != SQLITE_FULL);
    if (!counts || --current.countdown > 0)
        return SQLITE_OK;
    if (current.countdown < 0 && current.how == lasting::once)
        return SQLITE_OK;
    current.fired = true;
    if (current.code != SQLITE_IOERR)
        return current.code;
    return kind == call::write ? SQLITE_IOERR_WRITE : SQLITE_IOERR_FSYNC;
}

// The real file lies directly behind ours in the memory that SQLite provides.
struct faulty_file {
    sqlite3_file base;
    sqlite3_file* real;
};

sqlite3_file* real(sqlite3_file* file)
{
    return reinterpret_cast<faulty_file*>(file)->real;
}

template <auto Member, typename... Arguments>
int pass(sqlite3_file* file, Arguments... arguments)
{
    return (real(file)->pMethods->*Member)(real(file), arguments...);
}

int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 at)
{
    const int result = next_result(call::write);
    return result == SQLITE_OK ? real(file)->pMethods->xWrite(real(file), data, size, at) : result;
}

int truncate(sqlite3_file* file, sqlite3_int64 size)
{
    const int result = next_result(call::write);
    return result == SQLITE_OK ? real(file)->pMethods->xTruncate(real(file), size) : result;
}

int sync(sqlite3_file* file, int flags)
{
    const int result = next_result(call::sync);
    return result == SQLITE_OK ? real(file)->pMethods->xSync(real(file), flags) : result;
}

void barrier(sqlite3_file* file)
{
    real(file)->pMethods->xShmBarrier(real(file));
}

using methods = sqlite3_io_methods;
const methods faulty_methods{
    .iVersion = 2, // without memory mapping of the database, which Posthorn does not use
    .xClose = pass<&methods::xClose>,
    .xRead = pass<&methods::xRead, void*, int, sqlite3_int64>,
    .xWrite = write,
    .xTruncate = truncate,
    .xSync = sync,
    .xFileSize = pass<&methods::xFileSize, sqlite3_int64*>,
    .xLock = pass<&methods::xLock, int>,
    .xUnlock = pass<&methods::xUnlock, int>,
    .xCheckReservedLock = pass<&methods::xCheckReservedLock, int*>,
    .xFileControl = pass<&methods::xFileControl, int, void*>,
    .xSectorSize = pass<&methods::xSectorSize>,
    .xDeviceCharacteristics = pass<&methods::xDeviceCharacteristics>,
    .xShmMap = pass<&methods::xShmMap, int, int, int, void volatile**>,
    .xShmLock = pass<&methods::xShmLock, int, int, int>,
    .xShmBarrier = barrier,
    .xShmUnmap = pass<&methods::xShmUnmap, int>,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

sqlite3_vfs* underlying = nullptr;

int open(sqlite3_vfs* /*self*/, const char* name, sqlite3_file* file, int flags, int* out_flags)
{
    auto* ours = reinterpret_cast<faulty_file*>(file);
    ours->real = reinterpret_cast<sqlite3_file*>(ours + 1);
    const int result = underlying->xOpen(underlying, name, ours->real, flags, out_flags);
    ours->base.pMethods = ours->real->pMethods == nullptr ? nullptr : &faulty_methods;
    return result;
}

} // namespace

void install()
{
    static sqlite3_vfs faulty = [] {
        underlying = sqlite3_vfs_find(nullptr);
        auto copy = *underlying;
        copy.zName = "faulty";
        copy.szOsFile += static_cast<int>(sizeof(faulty_file));
        copy.xOpen = open;
        return copy;
    }();
    sqlite3_vfs_register(&faulty, 1);
}

void fail(int number, int code, lasting how)
{
    current = {.armed = true, .fired = false, .countdown = number, .code = code, .how = how};
}

bool off()
{
    const bool fired = current.fired;
    current = {};
    return fired;
}

} // namespace posthorn::test::faulty_files
