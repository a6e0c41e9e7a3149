"""skops files: a zip with `schema.json`, which names classes and their attributes, and a file per array.

skops trusts every estimator of scikit-learn. Some of them read files, cache pickles or call functions, and some pass
indexes of the file to native code that does not check them. Here a file is first turned into plain values
(`values`), without skops. Then each class needs an entry in `classes`, and some have rules about their attributes
(`rules`, `text_rules`).
"""
