// Makes the first, the second, the third … statement of a transaction fail, for real: SQLite is
// interrupted while it runs it, and the servers run into a trigger.
#pragma once

#include "conformance/store_under_test.hpp"
#include <posthorn/sqlite.hpp>

#include <sqlite3.h>

#include <memory>
#include <string>
#include <string_view>

namespace posthorn::conformance {

class saboteur {
public:
    virtual ~saboteur() = default;

    /// The first thing that a transaction does: so many statements from here, one fails. Those that
    /// change nothing count on SQLite only; so does the beginning. The commit counts on SQLite and
    /// PostgreSQL.
    virtual void arm(transaction& tx, int statement) = 0;

    /// From now on nothing fails on the only connection of this store.
    virtual void disarm(store& where) = 0;
};

class sqlite_saboteur final : public saboteur {
public:
    void arm(transaction& tx, int statement) override
    {
        db_ = sqlite::native_handle(tx);
        left_ = statement;
        sqlite3_trace_v2(db_, SQLITE_TRACE_STMT, &statement_begins, this);
        sqlite3_commit_hook(db_, &commit_begins, this);
    }
    void disarm(store& /*where*/) override
    {
        if (db_ == nullptr)
            return;
        sqlite3_trace_v2(db_, 0, nullptr, nullptr);
        sqlite3_commit_hook(db_, nullptr, nullptr);
    }

private:
    static int statement_begins(unsigned /*kind*/, void* self, void* /*statement*/, void* text)
    {
        auto& mine = *static_cast<sqlite_saboteur*>(self);
        const std::string_view sql(static_cast<const char*>(text));
        // A commit cannot be interrupted; its hook sees to it. What undoes must not fail.
        if (sql.starts_with("COMMIT") || sql.starts_with("ROLLBACK") || sql.starts_with("--"))
            return 0;
        if (--mine.left_ == 0)
            sqlite3_interrupt(mine.db_);
        return 0;
    }
    static int commit_begins(void* self)
    {
        return --static_cast<sqlite_saboteur*>(self)->left_ == 0 ? 1 : 0;
    }

    sqlite3* db_ = nullptr;
    int left_ = 0;
};

/// A trigger on every table counts down to the one that fails.
class postgres_saboteur final : public saboteur {
public:
    postgres_saboteur(store_under_test& where, const environment& world) : where_(where)
    {
        const auto url = where.url();
        const auto schema = url.substr(url.find("schema=") + 7);
        const auto app = where.connect(world);
        app->execute("CREATE FUNCTION " + schema +
                     ".sabotage() RETURNS trigger LANGUAGE plpgsql AS $$ "
                     "DECLARE more int := COALESCE(NULLIF(current_setting('sabotage.left', true), "
                     "''), '0')::int; BEGIN "
                     "PERFORM set_config('sabotage.left', (more - 1)::text, true); "
                     "IF more = 1 THEN RAISE EXCEPTION 'sabotage'; END IF; RETURN NULL; END $$");
        app->execute("DO $$ DECLARE each regclass; BEGIN FOR each IN SELECT oid FROM pg_class "
                     "WHERE relkind IN ('r', 'p') AND relnamespace IN ('" +
                     schema + "'::regnamespace, '" + schema +
                     "_app'::regnamespace) LOOP "
                     "EXECUTE format('CREATE TRIGGER sabotage BEFORE INSERT OR UPDATE OR DELETE ON "
                     "%s FOR EACH STATEMENT EXECUTE FUNCTION " +
                     schema +
                     ".sabotage()', each); "
                     "END LOOP; END $$");
        // Deferred, it runs when the transaction commits.
        app->execute("CREATE CONSTRAINT TRIGGER sabotage_of_commit AFTER INSERT ON " +
                     where.table_of_application() +
                     " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + schema +
                     ".sabotage()");
    }

    void arm(transaction& tx, int statement) override
    {
        where_.run_in(tx, "SELECT set_config('sabotage.left', '" + std::to_string(statement) +
                              "', true)");
    }
    void disarm(store& /*where*/) override {} // it was for that transaction alone

private:
    store_under_test& where_;
};

/// The same; here triggers know rows only, and no commit.
class mariadb_saboteur final : public saboteur {
public:
    mariadb_saboteur(store_under_test& where, const environment& world) : where_(where)
    {
        const auto app = where.connect(world);
        const auto tables = app->text("SELECT GROUP_CONCAT(table_name) FROM "
                                      "information_schema.tables WHERE table_schema = DATABASE() "
                                      "AND table_type = 'BASE TABLE'");
        for (std::size_t from = 0; from < tables.size();) {
            const auto table = tables.substr(from, tables.find(',', from) - from);
            from += table.size() + 1;
            for (const std::string event : {"INSERT", "UPDATE", "DELETE"})
                app->execute("CREATE TRIGGER " + table + "_" + event + " BEFORE " + event + " ON " +
                             table +
                             " FOR EACH ROW BEGIN SET @sabotage = @sabotage - 1; "
                             "IF @sabotage = 0 THEN SIGNAL SQLSTATE '45000' "
                             "SET MESSAGE_TEXT = 'sabotage'; END IF; END");
        }
    }

    void arm(transaction& tx, int statement) override
    {
        where_.run_in(tx, "SET @sabotage = " + std::to_string(statement));
    }
    void disarm(store& where) override
    {
        auto tx = where.begin();
        where_.run_in(tx, "SET @sabotage = NULL");
    }

private:
    store_under_test& where_;
};

/// On a store that has all its tables.
inline std::unique_ptr<saboteur> saboteur_of(const store_kind& kind, store_under_test& where,
                                             const environment& world)
{
    if (kind.name == "postgres")
        return std::make_unique<postgres_saboteur>(where, world);
    if (kind.name == "mariadb")
        return std::make_unique<mariadb_saboteur>(where, world);
    return std::make_unique<sqlite_saboteur>();
}

} // namespace posthorn::conformance
