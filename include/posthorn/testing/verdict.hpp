// The answer to an expectation: yes, or no and why. Works with any test framework, without
// knowing one.
//
//     EXPECT_TRUE(pt::everything_is_done(store));          // googletest prints the reason
//     REQUIRE(pt::everything_is_done(store));              // so do Catch2 and doctest
//     if (auto v = pt::everything_is_done(store); !v) std::cerr << v << '\n';
#pragma once

#include <concepts>
#include <ostream>
#include <string>
#include <utility>

namespace posthorn::testing {

/// What googletest calls an AssertionResult.
template <typename Type>
concept assertion_result = requires(const Type& result, Type& open)
{
    {
        result.failure_message()
        } -> std::convertible_to<const char*>;
    open << std::string();
};

class [[nodiscard]] verdict {
public:
    static verdict yes() { return {}; }
    static verdict no(std::string why) { return verdict(false, std::move(why)); }

    [[nodiscard]] const std::string& why() const noexcept { return why_; } ///< empty for a yes

    explicit operator bool() const noexcept { return holds_; }

    template <assertion_result Type>
    operator Type() const // NOLINT: meant to convert, so that EXPECT_TRUE prints the reason
    {
        Type result(holds_);
        result << why_;
        return result;
    }

    friend std::ostream& operator<<(std::ostream& out, const verdict& which)
    {
        return out << (which.holds_ ? std::string("as expected") : which.why_);
    }

private:
    verdict() = default;
    verdict(bool holds, std::string why) : holds_(holds), why_(std::move(why)) {}

    bool holds_ = true;
    std::string why_;
};

} // namespace posthorn::testing
