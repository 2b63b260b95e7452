// A database server of one test's own, which may be killed and started again.
#pragma once

#include "checker/scratch_folder.hpp"

#include <mysql.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace posthorn::torture {

/// Runs from construction on; it ends, and its data with it, when this object does.
class own_server {
public:
    /// `postgres` or `mariadb`, as tools/servers.sh calls them.
    explicit own_server(std::string engine) : engine_(std::move(engine))
    {
        start();
        if (engine_ == "mariadb")
            create_database();
    }
    own_server(const own_server&) = delete;
    own_server& operator=(const own_server&) = delete;
    ~own_server()
    {
        if (frozen_)
            (void)std::system(command("thaw").c_str());
        (void)std::system(command("stop").c_str());
    }

    /// A crash: all of its processes at once, with SIGKILL.
    void kill() { run("kill"); }

    /// It hangs: its processes stand still, and its connections stay open and silent.
    void freeze()
    {
        run("freeze");
        frozen_ = true;
    }
    void thaw()
    {
        if (std::exchange(frozen_, false))
            run("thaw");
    }

    /// Returns when it answers. After a crash it has its old data and its old port.
    void start() { run("start", engine_ == "postgres" ? " -c log_statement=all" : ""); }

    [[nodiscard]] std::string url() const
    {
        if (engine_ == "mariadb")
            return "mariadb://root@127.0.0.1:" + port() + "/torture";
        return "postgresql://postgres@127.0.0.1:" + port() + "/postgres";
    }

    /// A table of the application, as every connection to the URL can call it.
    [[nodiscard]] std::string table() const
    {
        return engine_ == "mariadb" ? "business" : "public.business";
    }

    /// How many statements it was sent, by whomever.
    [[nodiscard]] long statements() const
    {
        if (engine_ == "mariadb")
            return questions();
        const auto log = folder_.read("postgres.log");
        return count(log, "LOG:  statement: ") + count(log, "LOG:  execute ");
    }

private:
    [[nodiscard]] std::string port() const
    {
        auto text = folder_.read(engine_ + ".port");
        return text.substr(0, text.find('\n'));
    }

    [[nodiscard]] std::string command(const std::string& verb) const
    {
        return std::string("bash ") + SERVERS_SCRIPT + " " + engine_ + " " + verb + " " +
               folder_.file("").string();
    }

    void run(const std::string& verb, const std::string& options = "") const
    {
        if (std::system((command(verb) + options).c_str()) != 0)
            throw std::runtime_error("failed: " + command(verb) + options);
    }

    using client = std::unique_ptr<MYSQL, void (*)(MYSQL*)>;

    [[nodiscard]] client ask_mariadb(const char* sql) const
    {
        client root(mysql_init(nullptr), &mysql_close);
        if (mysql_real_connect(root.get(), "127.0.0.1", "root", nullptr, nullptr,
                               static_cast<unsigned>(std::stoul(port())), nullptr, 0) == nullptr ||
            mysql_query(root.get(), sql) != 0)
            throw std::runtime_error(mysql_error(root.get()));
        return root;
    }

    void create_database() const { (void)ask_mariadb("CREATE DATABASE torture"); }

    [[nodiscard]] long questions() const
    {
        const auto root = ask_mariadb("SHOW GLOBAL STATUS LIKE 'Questions'");
        const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> answer(
            mysql_store_result(root.get()), &mysql_free_result);
        return std::stol(mysql_fetch_row(answer.get())[1]);
    }

    static long count(const std::string& text, const std::string& what)
    {
        long found = 0;
        for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
            ++found;
        return found;
    }

    checker::scratch_folder folder_;
    std::string engine_;
    bool frozen_ = false;
};

} // namespace posthorn::torture
