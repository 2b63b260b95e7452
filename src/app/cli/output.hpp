// Where a verb's words go: results to standard output, everything else to standard error.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace posthorn::cli {

enum class tint { none, bold, dim, red, green, yellow };

/// The two streams of one run, and the form of what is written to them.
class output {
public:
    enum class form { text, json };

    explicit output(form how);

    [[nodiscard]] bool json() const noexcept { return form_ == form::json; }

    /// Whether somebody watches standard error, so that a progress bar makes sense.
    [[nodiscard]] bool watched() const noexcept { return watched_; }

    /// The text in this tint where results are coloured, and as it is elsewhere.
    [[nodiscard]] std::string tinted(std::string_view text, tint colour) const;

    /// Writes a result as it is; `line` ends it.
    void write(std::string_view text);
    void line(std::string_view text);

    /// Writes one JSON document: compact, or indented for a reader at a terminal.
    void document(const nlohmann::ordered_json& value);

    /// One result in the form that was asked for.
    void answer(const nlohmann::ordered_json& value, std::string_view text);

    /// Something worth knowing that is not a result. JSON readers find it in the document instead.
    void note(std::string_view text) const;

    void error(std::string_view code, std::string_view message) const;

    /// Sends off what is still buffered. False: some of it was lost, other than to a reader who
    /// left.
    [[nodiscard]] bool finish();

private:
    form form_;
    bool terminal_;
    bool coloured_;
    bool watched_;
    bool lost_ = false;
};

} // namespace posthorn::cli
