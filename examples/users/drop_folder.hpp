// A system that is a folder: what it is sent becomes a file. It stands for a mail server, and for
// the directory of another department.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace users {

class drop_folder {
public:
    explicit drop_folder(std::filesystem::path where) : where_(std::move(where))
    {
        if (std::filesystem::create_directories(where_)) // what was there keeps its rights
            std::filesystem::permissions(where_, std::filesystem::perms::owner_all);
    }

    /// The same name again replaces the file: that is how sending twice does no harm.
    void put(const std::string& name, const std::string& text) const
    {
        const auto draft = where_ / (name + ".tmp");
        std::ofstream file(draft);
        file << text;
        file.close();
        if (!file)
            throw std::runtime_error("cannot write " + draft.string());
        std::filesystem::rename(draft, where_ / name);
    }

private:
    std::filesystem::path where_;
};

} // namespace users
