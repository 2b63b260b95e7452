// A server of one test's own, which may be killed or stopped.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace posthorn::test {

class own_server {
public:
    own_server() { run("start"); }
    own_server(const own_server&) = delete;
    own_server& operator=(const own_server&) = delete;
    ~own_server()
    {
        if (command("stop") != 0)
            ADD_FAILURE() << "a server stays behind in " << folder_;
        std::error_code ignored; // a folder that stays behind must not fail a test
        std::filesystem::remove_all(folder_, ignored);
    }

    void run(const std::string& verb)
    {
        if (command(verb) != 0)
            throw std::runtime_error("servers.sh mariadb " + verb + " fails");
    }

    [[nodiscard]] std::string port() const
    {
        std::string text;
        std::ifstream(folder_ + "/mariadb.port") >> text;
        return text;
    }

private:
    [[nodiscard]] int command(const std::string& verb) const
    {
        return std::system((std::string(SERVERS) + " mariadb " + verb + " " + folder_).c_str());
    }

    static std::string new_folder()
    {
        auto name = (std::filesystem::temp_directory_path() / "posthorn-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("no temporary folder: " + name);
        return name;
    }

    std::string folder_ = new_folder();
};

} // namespace posthorn::test
