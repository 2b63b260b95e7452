// What tests of many stores stand on: folders full of SQLite files, and somebody who locks them.
#pragma once

#include "hang_limit.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include "runtime/worker_test.hpp"
#include <posthorn/posthorn.hpp>

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace posthorn::test {

using namespace std::chrono_literals;
using conformance::background;
using conformance::gate;
using conformance::notes;

/// Waits for a condition, and leaves the processor to those who bring it about.
inline bool eventually(const std::function<bool()>& condition)
{
    const auto world = environment::system();
    for (const auto end = std::chrono::steady_clock::now() + hang_limit; !condition();) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        world.clock->pause(1ms);
    }
    return true;
}

/// Files that are copies of one empty store: a thousand of them are there in a moment.
class tenants {
public:
    tenants() { sqlite::migrate("sqlite:" + folder_.file("template")); }

    [[nodiscard]] std::string path(const std::string& name) const
    {
        return folder_.file(name + ".db");
    }
    [[nodiscard]] std::string url(const std::string& name, const std::string& parameters = "") const
    {
        return "sqlite:" + path(name) + "?synchronous=normal" + parameters;
    }

    named_store add(const std::string& name, const std::string& parameters = "")
    {
        std::filesystem::copy_file(folder_.file("template"), path(name));
        return {.name = name, .url = url(name, parameters)};
    }
    std::vector<named_store> add_many(std::size_t count, const std::string& prefix = "tenant-")
    {
        std::vector<named_store> all;
        for (std::size_t i = 0; i < count; ++i)
            all.push_back(add(prefix + std::to_string(i)));
        return all;
    }

    /// A file that is no database.
    named_store add_broken(const std::string& name)
    {
        std::ofstream(path(name)) << std::string(8'192, 'x');
        return {.name = name, .url = url(name)};
    }

    /// As another process would: through a handle of its own.
    message_id send(const std::string& name, const std::string& topic = "orders",
                    const enqueue_options& how = {}) const
    {
        auto where = posthorn::open(url(name));
        return enqueue(where, {topic, name}, how).id;
    }
    void send_many(const std::string& name, std::size_t count) const
    {
        auto where = posthorn::open(url(name));
        auto tx = where.begin();
        for (std::size_t i = 0; i < count; ++i)
            enqueue(tx, {"orders", name});
        tx.commit();
    }
    [[nodiscard]] store_stats count(const std::string& name) const
    {
        auto where = posthorn::open(url(name));
        return count_messages(where);
    }

private:
    temporary_folder folder_;
};

/// Holds the write lock of a file, as another process that does not let go.
class locker {
public:
    explicit locker(const std::string& path)
    {
        // Whoever has just been let go may still write.
        if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK ||
            sqlite3_busy_timeout(db_, 30'000) != SQLITE_OK || !run("BEGIN IMMEDIATE"))
            throw std::runtime_error("cannot lock " + path);
    }
    locker(const locker&) = delete;
    locker& operator=(const locker&) = delete;
    ~locker() { sqlite3_close(db_); }

    void let_go() { (void)run("ROLLBACK"); }

private:
    bool run(const char* sql)
    {
        return sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
    }
    sqlite3* db_ = nullptr;
};

/// Counts per store what was handled.
class tally {
public:
    void add(const std::string& store)
    {
        const std::lock_guard lock(mutex_);
        ++counts_[store];
    }
    [[nodiscard]] std::size_t of(const std::string& store) const
    {
        const std::lock_guard lock(mutex_);
        const auto found = counts_.find(store);
        return found == counts_.end() ? 0 : found->second;
    }
    [[nodiscard]] std::size_t stores() const
    {
        const std::lock_guard lock(mutex_);
        return counts_.size();
    }
    [[nodiscard]] std::map<std::string, std::size_t> all() const
    {
        const std::lock_guard lock(mutex_);
        return counts_;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::size_t> counts_;
};

/// An environment whose log can be read.
class listening_world {
public:
    [[nodiscard]] environment world() const
    {
        auto result = environment::system();
        result.log = [lines = lines_](log_level, std::string_view line) {
            lines->add(std::string(line));
        };
        return result;
    }
    [[nodiscard]] std::size_t logged(const std::string& part) const
    {
        std::size_t count = 0;
        for (const auto& each : lines_->all())
            count += each.find(part) != std::string::npos ? 1 : 0;
        return count;
    }

private:
    std::shared_ptr<notes> lines_ = std::make_shared<notes>();
};

} // namespace posthorn::test
