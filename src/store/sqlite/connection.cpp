// Connections and statements. The busy handler here is what keeps writers fair to each other.
#include "store/sqlite/connection.hpp"

#include "store/sqlite/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>

namespace posthorn::sqlite {

query::~query()
{
    // What reset returns is the error that step has already reported. Clearing makes every
    // parameter NULL again, so that binding nothing is binding NULL.
    sqlite3_reset(prepared_);
    sqlite3_clear_bindings(prepared_);
}

void query::check(int code) const
{
    if (code != SQLITE_OK)
        throw_error(db_, code, name_);
}

query& query::bind(int parameter, std::int64_t value)
{
    check(sqlite3_bind_int64(prepared_, parameter, value));
    return *this;
}

query& query::bind(int parameter, const std::optional<timestamp>& value)
{
    return value ? bind(parameter, *value) : *this;
}

query& query::bind_text(int parameter, std::string_view value)
{
    const char* data = value.data() == nullptr ? "" : value.data();
    check(
        sqlite3_bind_text64(prepared_, parameter, data, value.size(), SQLITE_STATIC, SQLITE_UTF8));
    return *this;
}

query& query::bind_text_or_null(int parameter, std::string_view value)
{
    return value.empty() ? *this : bind_text(parameter, value);
}

query& query::bind_blob(int parameter, std::string_view value)
{
    // A null pointer would bind NULL instead of an empty blob.
    const char* data = value.data() == nullptr ? "" : value.data();
    check(sqlite3_bind_blob64(prepared_, parameter, data, value.size(), SQLITE_STATIC));
    return *this;
}

bool query::step()
{
    const int code = sqlite3_step(prepared_);
    if (code == SQLITE_ROW)
        return true;
    if (code != SQLITE_DONE)
        throw_error(db_, code, name_);
    return false;
}

void query::run()
{
    while (step()) {}
}

bool query::is_null(int column) const
{
    return sqlite3_column_type(prepared_, column) == SQLITE_NULL;
}

std::int64_t query::integer(int column) const
{
    return sqlite3_column_int64(prepared_, column);
}

std::optional<timestamp> query::time_or_none(int column) const
{
    return is_null(column) ? std::nullopt : std::optional{time(column)};
}

std::string_view query::text(int column) const
{
    // The blob form of a text column is its bytes, without a conversion.
    const auto* data = static_cast<const char*>(sqlite3_column_blob(prepared_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(prepared_, column));
    return data == nullptr ? std::string_view{} : std::string_view{data, size};
}

message_id query::id(int column) const
{
    uuid value;
    const auto bytes = text(column);
    if (bytes.size() == value.bytes.size())
        std::memcpy(value.bytes.data(), bytes.data(), bytes.size());
    return message_id{value};
}

std::string_view query::bytes_of(const message_id& id)
{
    const auto& bytes = id.value().bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace {

// SQLite says the same for a folder that is missing and for a file that is.
void check_folder_of(const std::string& file, int code)
{
    if ((code & 0xff) != SQLITE_CANTOPEN)
        return;
    const auto folder = std::filesystem::path(file).parent_path();
    std::error_code unknown;
    const auto found = std::filesystem::status(folder, unknown);
    if (folder.empty() || found.type() == std::filesystem::file_type::directory)
        return;
    if (found.type() == std::filesystem::file_type::not_found)
        throw error(error_code::not_found,
                    fmt::format("SQLite: cannot open '{}': there is no folder '{}'; make it first, "
                                "as with mkdir -p",
                                file, folder.string()),
                    {.native_code = code, .statement = "open"});
    throw error(error_code::not_found,
                fmt::format("SQLite: cannot open '{}': '{}' is not a folder, or cannot be looked "
                            "into",
                            file, folder.string()),
                {.native_code = code, .statement = "open"});
}

} // namespace

connection::connection(const std::string& path, access how, settings with)
    : owned_(true), settings_(std::move(with)), prepared_(sql::all.size())
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (how != access::existing)
        flags |= SQLITE_OPEN_CREATE;
    const auto& name = how == access::memory ? ":memory:" : path;
    if (how != access::memory)
        path_ = path;
    opened_ = identity_of(path_); // first: a file that takes its place meanwhile is noticed
    const int code = sqlite3_open_v2(name.c_str(), &db_, flags, nullptr);
    try {
        if (code != SQLITE_OK) {
            check_folder_of(name, code);
            throw_error(db_, code, "open " + name);
        }
        configure(how);
        if (how == access::create)
            opened_ = identity_of(path_);
    } catch (...) {
        sqlite3_close_v2(db_);
        throw;
    }
}

connection::file_identity connection::identity_of(const std::string& path)
{
    struct stat found {};
    if (path.empty() || stat(path.c_str(), &found) != 0)
        return std::nullopt;
    return std::pair{static_cast<std::uint64_t>(found.st_dev),
                     static_cast<std::uint64_t>(found.st_ino)};
}

// A path that was not of the file system before says nothing: an application's own VFS has it.
bool connection::is_at_its_path() const
{
    return !opened_ || identity_of(path_) == opened_;
}

connection::connection(sqlite3* lent, settings with)
    : db_(lent), owned_(false), settings_(std::move(with)), prepared_(sql::all.size())
{}

connection::~connection()
{
    for (auto* each : prepared_)
        sqlite3_finalize(each);
    if (owned_)
        sqlite3_close_v2(db_);
}

void connection::configure(access how)
{
    sqlite3_busy_handler(db_, &connection::when_busy, this);
    if (how == access::create) {
        // The answer counts, not only the return code: a file
        // system without shared memory says "delete".
        const auto mode = pragma("journal_mode=WAL");
        if (mode != "wal")
            throw error(
                error_code::unsupported,
                fmt::format("SQLite cannot use its write-ahead log here (journal mode stays '{}'): "
                            "put the file on a local file system",
                            mode));
    }
    execute(settings_.synchronous_full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
            "set synchronous");
    execute("PRAGMA mmap_size=0; PRAGMA cache_size=-16384; PRAGMA temp_store=MEMORY",
            "set pragmas");
}

// SQLite's own time-out sleeps longer and longer, so that whoever waits loses against a busy writer
// again and again. Short random naps give everybody the same chance at the moment the lock is free.
int connection::when_busy(void* self, int times)
{
    auto& own = *static_cast<connection*>(self);
    const auto& world = own.settings_.environment;
    const auto now = world.clock->monotonic();
    if (times == 0)
        own.busy_since_ = now;
    if (now - own.busy_since_ >= own.settings_.busy_timeout)
        return 0;
    world.clock->pause(duration{
        1 + static_cast<std::int64_t>(world.random->bits() %
                                      static_cast<std::uint64_t>(own.settings_.nap_max.count()))});
    return 1;
}

query connection::use(const contract::named_statement& which)
{
    auto*& prepared = prepared_[static_cast<std::size_t>(which.index)];
    if (prepared == nullptr) {
        const auto text = with_prefix(which.text);
        const int code = sqlite3_prepare_v3(db_, text.data(), static_cast<int>(text.size()),
                                            SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
        if (code != SQLITE_OK)
            throw_error(db_, code, which.name);
    }
    return query{db_, prepared, which.name};
}

void connection::execute(const std::string& sql, std::string_view during)
{
    const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK)
        throw_error(db_, code, during);
}

std::string connection::pragma(const std::string& name)
{
    sqlite3_stmt* prepared = nullptr;
    const auto text = "PRAGMA " + name;
    const int code = sqlite3_prepare_v2(db_, text.c_str(), -1, &prepared, nullptr);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owned(prepared, &sqlite3_finalize);
    if (code != SQLITE_OK)
        throw_error(db_, code, name);
    query execution{db_, prepared, name};
    return execution.step() ? std::string(execution.text(0)) : std::string{};
}

std::string connection::with_prefix(std::string_view text) const
{
    return contract::with_prefix(text, settings_.prefix);
}

} // namespace posthorn::sqlite
