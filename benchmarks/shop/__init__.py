"""A simulated shop: what is lost until it has found good settings, against four rivals.

A seed is a new shop with 3 to 5 settings: a price, and others out of a free-shipping threshold, a
layout, results per page, a discount, a reminder and a weight of the ranking. The effects on
conversion and on the basket are drawn (`shops.py`). 20,000 customers come in each of 50 periods,
10⁶ in all; a period is a day. A customer buys with a small probability, and spends a lognormal
amount. The day of the week multiplies the conversion of all settings alike. 3 % of the results
arrive 1 to 5 periods late. Today's setting is better than a half to four fifths of all settings.

The loss is the sum over all customers of what the best setting would have earned in expectation,
minus what the setting that they saw earned in expectation. It is given as a share of what the best
setting would have earned.
"""
