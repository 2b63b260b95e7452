// A mail server that is a folder: each e-mail becomes a file. It can be down.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

class mail_folder {
public:
    explicit mail_folder(std::filesystem::path where) : where_(std::move(where))
    {
        std::filesystem::create_directories(where_);
    }

    /// Sending the same e-mail twice leaves one file: it is named by the message's id. Handlers are
    /// called again after a crash, and this is how such a call does no harm.
    void send(const std::string& id, const std::string& to, const std::string& text) const
    {
        if (is_down_)
            throw std::runtime_error("the mail server does not answer");
        const auto draft = where_ / (id + ".tmp");
        std::ofstream file(draft);
        file << "Message-ID: <" << id << "@shop.example>\r\nTo: " << to
             << "\r\nSubject: Welcome\r\n\r\n"
             << text << "\r\n";
        file.close();
        if (!file)
            throw std::runtime_error("cannot write " + draft.string());
        std::filesystem::rename(draft, where_ / (id + ".eml"));
    }

    void go_down() { is_down_ = true; }
    void come_back() { is_down_ = false; }

    [[nodiscard]] std::ptrdiff_t sent() const
    {
        return std::distance(std::filesystem::directory_iterator(where_), {});
    }

private:
    std::filesystem::path where_;
    bool is_down_ = false;
};
