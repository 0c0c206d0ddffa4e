// SPDX-License-Identifier: MIT
#ifndef SHOAL_PLUGINS_ALE_REVEAL_H_
#define SHOAL_PLUGINS_ALE_REVEAL_H_

// SHOAL_REVEAL(System, myCycles) makes object.*reveal(myCycles{}) a private member that ALE does
// not expose: an explicit instantiation may name it, and a friend function returns it.
namespace {

template <class Tag, auto kMember>
struct Reveal {
  friend constexpr auto reveal(Tag) { return kMember; }
};

}  // namespace

#define SHOAL_REVEAL(Class, member)       \
  struct member {                         \
    friend constexpr auto reveal(member); \
  };                                      \
  template struct Reveal<member, &Class::member>

#endif  // SHOAL_PLUGINS_ALE_REVEAL_H_
