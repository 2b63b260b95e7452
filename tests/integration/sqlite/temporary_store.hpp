// Files that go away by themselves, so that every test has a store of its own.
#pragma once

#include <posthorn/posthorn.hpp>
#include <posthorn/sqlite.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace posthorn::test {

class temporary_folder {
public:
    temporary_folder()
    {
        auto name = (std::filesystem::temp_directory_path() / "posthorn-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("cannot make a folder like " + name);
        path_ = name;
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

/// A migrated store in a folder of its own.
class temporary_store {
public:
    temporary_store() { sqlite::migrate(url()); }

    [[nodiscard]] std::string path() const { return folder_.file("store.db"); }
    [[nodiscard]] std::string url() const { return "sqlite:" + path(); }
    [[nodiscard]] store open(const store_options& options = {}) const
    {
        return sqlite::open(url(), options);
    }

    /// What a diagnosis calls a problem; empty for a store that is well.
    [[nodiscard]] std::string problems() const
    {
        std::string text;
        for (const auto& each : sqlite::diagnose(url()))
            if (each.level == severity::problem)
                text += each.check + ": " + each.detail + "\n";
        return text;
    }

private:
    temporary_folder folder_;
};

} // namespace posthorn::test
