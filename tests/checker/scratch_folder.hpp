// A folder of its own for each test, gone with it.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace posthorn::checker {

class scratch_folder {
public:
    scratch_folder()
    {
        auto name = (std::filesystem::temp_directory_path() / "checker-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::system_error(errno, std::generic_category(), name);
        path_ = name;
    }
    scratch_folder(const scratch_folder&) = delete;
    scratch_folder& operator=(const scratch_folder&) = delete;
    ~scratch_folder()
    {
        std::error_code ignored; // a leftover folder is no reason to fail
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::filesystem::path file(std::string_view name) const { return path_ / name; }

    [[nodiscard]] std::string read(std::string_view name) const
    {
        std::ifstream from(file(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(from), {}};
    }

    std::filesystem::path write(std::string_view name, std::string_view text) const
    {
        std::ofstream(file(name), std::ios::binary) << text;
        return file(name);
    }

private:
    std::filesystem::path path_;
};

} // namespace posthorn::checker
